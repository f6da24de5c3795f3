"""An agent that writes a report, uploads it and mails it: the application that `make demo` kills three times.

Beside each tool stands what repeating it would do. That is all Holdfast needs to know.
"""

from __future__ import annotations

import hashlib
import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import holdfast as hf

OUTSIDE = os.environ.get("DEMO_OUTSIDE", "http://127.0.0.1:8090")
FOLDER = Path(os.environ.get("DEMO_FOLDER", "."))
NO_KEY = hf.Key("")

app = hf.App()


def tell(path: str, body: dict[str, Any], key: str = "") -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - the demo's own receiver, on loopback
        OUTSIDE + path, json.dumps(body).encode(), {"Idempotency-Key": key}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        said: dict[str, Any] = json.load(answer)
    return said


@app.tool(effect="read_only")
def research(topic: str) -> str:
    return str(tell("/ask", {"question": f"What is known about {topic}?"})["answer"])


@app.tool(effect="idempotent")  # the same bytes in the same place, however often
def render(text: str) -> dict[str, str]:
    path = FOLDER / "report.pdf"
    path.write_bytes(b"%PDF-1.4\n" + text.encode())
    return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


@app.tool(effect="idempotent", key_lifetime="24h")  # the receiver knows keys, for a day
def upload(path: str, sha256: str, *, key: hf.Key = NO_KEY) -> str:
    return str(tell("/upload", {"path": path, "sha256": sha256}, key)["url"])


def was_sent(key: str, _args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    found = tell("/sent", {"marker": key})
    return hf.Happened(found["receipt"]) if found["receipt"] else hf.NotHappened()


@app.tool(effect="verifiable", probe=was_sent, timeout="1s")  # it knows no keys, but it can be asked
def send_email(to: str, body: str, *, key: hf.Key = NO_KEY) -> str:
    return str(tell("/mail", {"to": to, "body": body, "marker": key})["receipt"])


@app.agent
async def report(topic: str, to: str) -> str:
    answer = await research(topic)
    pdf = await render(answer)
    link = await upload(pdf["path"], pdf["sha256"])
    return await send_email(to, f"Here is your report: {link}")
