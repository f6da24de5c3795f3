"""Bringing people's code to a process: by file, by module, by name; and what is said when it is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import InvalidSetting, NotFound
from holdfast.runtime.app import DEFAULT
from holdfast.runtime.app_loader import load

ONE = "import holdfast as hf\napp = hf.App()\n@app.agent\nasync def report() -> int: return 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and the modules of this process as they were afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_a_file_with_one_application(folder: Path) -> None:
    (folder / "one_app.py").write_text("from neighbour import LIMIT\n" + ONE)
    (folder / "neighbour.py").write_text("LIMIT = 3\n")
    app = load("one_app.py")
    assert list(app.agents) == ["report"]
    assert load(str(folder / "one_app.py")) is app, "imported once"


def test_a_module_and_a_name(folder: Path) -> None:
    (folder / "two_apps.py").write_text("import holdfast as hf\nfirst = hf.App()\nsecond = hf.App()\n")
    with pytest.raises(InvalidSetting, match="two_apps has 2 applications"):
        load("two_apps")
    assert load("two_apps:first") is not load("two_apps:second")
    with pytest.raises(NotFound, match="no application called 'third'"):
        load("two_apps:third")


def test_a_module_without_an_application_declares_on_the_default(folder: Path) -> None:
    (folder / "no_app.py").write_text("import holdfast as hf\n")
    assert load("no_app.py") is DEFAULT


def test_code_that_is_not_there(folder: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        load("nothing.py")
    with pytest.raises(NotFound, match="there is no module 'nothing_here'"):
        load("nothing_here")


def test_an_error_in_the_code_is_the_codes_own(folder: Path) -> None:
    """A module that imports something missing is not "not there"; and a failed import leaves nothing behind."""
    (folder / "broken_app.py").write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load("broken_app")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load("broken_app.py")
    assert "broken_app" not in sys.modules


def test_every_public_name_is_there() -> None:
    for name in hf.__all__:
        assert getattr(hf, name) is not None
    assert set(hf.__all__) <= set(dir(hf))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hf.nothing


def test_importing_the_package_costs_nothing() -> None:
    """A fresh process: no driver, no event loop, none of our own modules."""
    code = "import sys, holdfast; print(sorted(name for name in sys.modules if name.split('.')[0] in NAMES))"
    code = code.replace("NAMES", "{'apsw', 'asyncio', 'asyncpg', 'click', 'holdfast', 'msgspec', 'rich'}")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['holdfast']"
