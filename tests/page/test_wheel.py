"""The wheel carries the page: built here, installed where there is no node, served to whoever opens the address."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), "."]
    subprocess.run([sys.executable, "-m", *build], cwd=ROOT, check=True)
    (made,) = folder.glob("holdfast-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that has what a deployment has, and this wheel."""
    venv = tmp_path_factory.mktemp("venv")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    into = ["--python", str(venv / "bin" / "python")]
    subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, str(venv)], check=True)
    locked = ["--require-hashes", "--requirement", str(ROOT / "requirements" / "runtime.txt")]
    subprocess.run([*uv, "pip", "install", *into, *locked], check=True)
    subprocess.run([*uv, "pip", "install", *into, "--no-deps", str(wheel)], check=True)
    return venv / "bin"


@pytest.fixture
def url(installed: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a server that was started with nothing on its path but itself."""
    known = {"PATH": str(installed), "HOME": str(tmp_path), "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    process = subprocess.Popen(
        [installed / "holdfast", "serve", "--port", "0", "--store", "sqlite:///h.db"],
        cwd=tmp_path,
        env=known,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.match(r"listening on (http://127\.0\.0\.1:\d+);", process.stderr.readline())
        assert found, process.stderr.read()
        yield found[1]
    finally:
        process.kill()
        process.communicate()


def test_the_wheel_has_the_built_files_and_none_of_their_sources(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    static = [name for name in names if name.startswith("holdfast/server/page/static/")]
    built = ROOT / "src" / "holdfast" / "server" / "page" / "static"
    assert sorted(Path(name).name for name in static) == sorted(path.name for path in built.iterdir())
    sizes = [len(gzip.compress(path.read_bytes())) for path in built.iterdir()]
    assert sum(sizes) <= 150 * 1024, "it is small, over any wire"
    assert not [name for name in names if "node_modules" in name or name.endswith((".ts", ".tsx"))]


def test_the_page_is_there_where_there_is_no_node(url: str) -> None:
    with httpx2.Client(base_url=url, trust_env=False) as http:
        document = http.get("/jobs/any")
        named = re.findall(r'(?:src|href)="(/static/[^"]+)"', document.text)
        assert {Path(name).suffix for name in named} >= {".js", ".css"}
        for name in named:
            answer = http.get(name)
            assert answer.status_code == 200, name
            assert "immutable" in answer.headers["cache-control"], name
            assert len(answer.content) > 100, name
