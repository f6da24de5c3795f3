"""A worker of an upgrade that rolls: the same small application, on whichever Holdfast is on its path.

It is told what to do by lines of JSON, and answers each with one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.model.jobs import JobDraft
from holdfast.runtime.process import Process, open_process
from holdfast.store.sql.migrate import SCHEMA_VERSION

FOLDER = Path(sys.argv[2])
NO_KEY = hf.Key("")
app = hf.App()


@app.tool(effect="read_only")
async def look(number: int) -> int:
    return number * 2


@app.tool(effect="read_only")
async def gate(name: str) -> bool:
    while not (FOLDER / name).exists():  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(0.02)
    return True


@app.tool(effect="idempotent", key_lifetime="1d")
async def send(number: int, *, key: hf.Key = NO_KEY) -> str:
    with (FOLDER / "receiver").open("a", encoding="utf-8") as receiver:
        receiver.write(f"{number} {key}\n")
    return str(number)


@app.agent
async def errand(number: int, behind: str) -> str:
    doubled = await look(number)
    await gate(behind)
    await hf.sleep("20ms")
    return await send(doubled)


async def answer(process: Process, asked: dict[str, Any]) -> Any:
    if "submit" in asked:
        return [
            await process.start(
                JobDraft(kind="errand", job_id=job_id, input={"number": number, "behind": asked["behind"]})
            )
            for job_id, number in asked["submit"].items()
        ]
    return {job_id: await process.result(job_id) for job_id in asked["wait"]}


async def main() -> None:
    process = await open_process(app.programs(), sys.argv[1], concurrency=2)
    print(json.dumps({"schema": SCHEMA_VERSION, "from": hf.__file__}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await answer(process, json.loads(line))), flush=True)
    await process.close()


if __name__ == "__main__":
    asyncio.run(main())
