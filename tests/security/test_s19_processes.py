"""S19, S20: a tool's program sees no credential of ours and dies with its call; nothing is cached unless asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_SECRET_X", "HOLDFAST_STORE_PASSWORD", "HOLDFAST_SIGNING_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "credential-of-the-worker")
    monkeypatch.setenv("HARMLESS", "yes")


async def test_a_program_sees_no_credentials() -> None:
    bare = await hf.run_process(["env"])
    assert "credential-of-the-worker" not in bare.stdout
    assert "HARMLESS" not in bare.stdout
    all_of_it = await hf.run_process(["env"], inherit_env=True)
    assert "HARMLESS=yes" in all_of_it.stdout
    assert "HOLDFAST_" not in all_of_it.stdout, "ours are never passed on, whatever was asked for"


async def test_a_program_has_bounds_and_dies_as_a_group(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    script = f"(sleep 30; touch {mark}) & yes x | head -c 3000000; sleep 30"
    ended = await hf.run_process(["sh", "-c", script], timeout="1s", grace="0.1s", output_max=1000)
    assert ended.timed_out
    assert ended.stdout_truncated
    assert len(ended.stdout) <= 1000
    left = await hf.run_process(["sh", "-c", f"ps -eo args | grep -c '[t]ouch {mark}' || true"])
    assert left.stdout.strip() == "0"
    greedy = await hf.run_process(
        ["python3", "-c", "bytearray(1 << 30)"], memory_max=256 * 1024 * 1024, timeout="20s"
    )
    assert greedy.status != 0


@pytest.mark.store("sqlite")
async def test_answers_are_not_cached_unless_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[reply]]\ntext = "Hello."\n', encoding="utf-8")
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    llm = hf.llm(f"scripted:{script}", retry=hf.Retry(attempts=1))

    @app.agent
    async def asker() -> str:
        return (await llm.ask([hf.user("hi")])).text

    async with app.running() as process:
        for nth in range(2):
            assert await (await asker.start(id=f"job-{nth}")).result() == "Hello."
        counts = await process.store.cache.counts()
        assert counts.entries == 0
        await process.store.namespaces.create("other")
        await process.store.cache.put(b"k" * 32, b"mine", ttl_us=10**9, namespace="default")
        assert await process.store.cache.get(b"k" * 32, namespace="other") is None
