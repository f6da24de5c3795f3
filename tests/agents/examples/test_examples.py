"""Every example runs by itself, and survives every crash."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.testing import DidNotSurvive, survives_crashes

EXAMPLES = Path(__file__).parents[3] / "examples"


def load(name: str) -> ModuleType:
    """The example as a module, once: it declares its agents where it is loaded."""
    module = sys.modules.get(f"examples.{name}")
    if module is None:
        spec = importlib.util.spec_from_file_location(f"examples.{name}", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[f"examples.{name}"] = module
        spec.loader.exec_module(module)
    return module


def run(name: str, folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *args],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOLDFAST_STORE": f"sqlite:///{folder / 'example.db'}"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name, args, said",
    [
        ("support", (), "I am sorry. refunded 42.00 for order 42, receipt "),
        ("support", ("hello",), "Tell me the number of your order, please."),
        ("chat", (), "There are 12 bundles of kelp."),
        ("research", ("tides",), "In short: Summarise this. tides: Three things"),
        ("planner", (), "It will be sunny in Turin. You have 2 seats on TU 9512"),
        ("approval", ("500",), "sent 5.00 to ada"),
        ("digest", ("2026-11-16",), "digest of 2026-11-16: Today: the tide is high"),
    ],
)
def test_an_example_runs_by_itself(name: str, args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in run(name, tmp_path, *args)


def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    run("chat", tmp_path)
    assert "The first thing you told me was: I am Ada." in run("chat", tmp_path)


def test_a_digest_is_made_once_a_day(tmp_path: Path) -> None:
    first, second = run("digest", tmp_path, "2026-11-16"), run("digest", tmp_path, "2026-11-16")
    assert first == second
    listed = subprocess.run(
        [sys.executable, "-m", "holdfast", "jobs", "--store", f"sqlite:///{tmp_path / 'example.db'}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.count("digest-2026-11-16") == 1


@pytest.mark.store("memory")
@pytest.mark.parametrize(
    "name, agent, args",
    [
        ("support", "support", ("Order 42 came broken.",)),
        ("chat", "gardener", ("How much kelp is in stock?",)),
        ("research", "editor", (["tides", "storms"],)),
        ("approval", "treasurer", ("ada", 8000)),
        ("digest", "digest", ("2026-11-16",)),
    ],
)
def test_an_example_survives_every_crash(name: str, agent: str, args: tuple[Any, ...]) -> None:
    survival = survives_crashes(getattr(load(name), agent), *args)
    assert len(survival.points) >= 10, "so many points at which its process can die"
    assert survival.survived
    print(survival)


@pytest.mark.store("memory")
def test_a_wrong_example_is_told_what_it_did_twice() -> None:
    """The refund forgets its key: whoever pays cannot tell the second request from a second refund."""
    import holdfast as hf

    app = hf.App("memory:")
    paid: list[int] = []

    @app.tool(effect="idempotent")
    async def refund(cents: int) -> str:
        paid.append(cents)
        return "refunded"

    @app.agent
    async def careless(cents: int) -> str:
        return await refund(cents)

    with pytest.raises(DidNotSurvive) as caught:
        survives_crashes(careless, 4200, effects=lambda: list(paid), reset=paid.clear)
    assert "refund" in str(caught.value)
    assert "4200" in str(caught.value)
