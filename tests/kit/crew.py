"""Processes for the kit's tests.

python -m tests.kit.crew cut DATABASE EFFECT LOG     begins a call, says so, and waits to be killed
python -m tests.kit.crew race DATABASE COUNT LOG     so many processes make the same call at once
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.errors import CallUncertain
from holdfast.kit import CheckpointManager, ToolLedger, get_db
from holdfast.store.sqlite.open import open_sqlite

assert callable(open_sqlite), "imported before the fork, so that the children need not"


def note(log: str) -> dict[str, Any]:
    with Path(log).open("a", encoding="utf-8") as file:
        file.write("sent\n")
    return {"sent": True}


def cut(database: str, effect: str, log: str) -> None:
    db = get_db(database)
    CheckpointManager(conn=db).begin_step("t", "tool_executed", {"about": "to send"})

    def hang() -> Any:
        note(log)
        print(json.dumps({"begun": db.me}), flush=True)
        signal.pause()

    ToolLedger(db, effect=effect).execute_or_replay("mail", "send", hang, "t")


def race(database: str, count: str, log: str) -> None:
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    members = []
    for _ in range(int(count)):
        pid = os.fork()
        if pid == 0:
            os.close(go_w)
            ledger = ToolLedger(get_db(database))
            os.write(ready_w, b"x")
            os.read(go_r, 1)  # ends when the parent closes its side
            try:
                ledger.execute_or_replay("mail", "send", lambda: note(log), "t")
            except CallUncertain:
                os._exit(2)
            os._exit(0)
        members.append(pid)
    waiting = int(count)
    while waiting:
        waiting -= len(os.read(ready_r, waiting))
    os.close(go_w)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in members]
    print(json.dumps({"codes": codes}), flush=True)


if __name__ == "__main__":
    {"cut": cut, "race": race}[sys.argv[1]](*sys.argv[2:])
