"""The application of the kill matrix: a sub-agent's findings become a PDF, which is uploaded and mailed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import holdfast as hf

WORKSPACE = Path(os.environ["MATRIX_WORKSPACE"])
RECEIVER = os.environ["MATRIX_RECEIVER"]
MAIL = os.environ.get("MATRIX_MAIL", "keyed")
HANGS = os.environ.get("MATRIX_HANGS", "")

app = hf.App()


def post(path: str, body: dict[str, Any] | None = None, key: str = "") -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - the address is the test's own receiver
        RECEIVER + path,
        data=json.dumps(body or {}).encode(),
        headers={"Idempotency-Key": key},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
        said: dict[str, Any] = json.load(answer)
    return said


def begin(tool: str) -> None:
    """The tool's own log says that it was started; where the test wants to kill, it then hangs."""
    with (WORKSPACE / "started.log").open("a", encoding="utf-8") as log:
        log.write(tool + "\n")
    if tool == HANGS:
        sys.stdin.read()  # until the kill


# ── the tools ─────────────────────────────────────────────────────────────────────────────────────


def subagent_output(_key: str, _args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    """What the sub-agent left behind, if it is whole."""
    try:
        found = json.loads((WORKSPACE / "subagent_output.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return hf.NotHappened()
    return hf.Happened(found) if found.get("output") else hf.NotHappened()


@app.tool(name="Task", on_resume="relaunch", output=subagent_output, timeout="30s")
def task(prompt: str, task_key: str = "") -> dict[str, Any]:
    begin("Task")
    found = {"output": f"findings on {prompt}", "task_key": task_key}
    (WORKSPACE / "subagent_output.json").write_text(json.dumps(found), encoding="utf-8")
    return found


@app.tool(name="Bash", effect="idempotent")  # the same bytes in the same place, however often
def render(text: str, target: str) -> dict[str, str]:
    begin("Bash")
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(b'%PDF-1.4 ' + sys.argv[2].encode())"
    subprocess.run([sys.executable, "-c", code, str(WORKSPACE / target), text], check=True)
    return {"path": target, "sha256": hashlib.sha256((WORKSPACE / target).read_bytes()).hexdigest()}


@app.tool(name="mcp__local_toolkit__upload_to_composio", effect="idempotent", key_lifetime="24h")
def upload(path: str, sha256: str, *, key: hf.Key = hf.Key("")) -> dict[str, Any]:  # noqa: B008
    begin("upload")
    return post("/upload", {"path": path, "sha256": sha256}, key)


@app.tool(effect="idempotent", key_lifetime="24h")
def create_draft(subject: str, *, key: hf.Key = hf.Key("")) -> str:  # noqa: B008
    return str(post("/drafts", {"subject": subject}, key)["draft"])


def find_sent(key: str, _args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    found = post(f"/find/{key}")
    return hf.Happened(found) if found else hf.NotHappened()


DECLARED: dict[str, dict[str, Any]] = {
    "keyed": {"effect": "idempotent", "key_lifetime": "24h"},
    "draft": {"effect": "idempotent"},
    "probe": {"effect": "verifiable", "probe": find_sent, "timeout": "1s"},
    "plain": {},
}


@app.tool(name="GMAIL_SEND_EMAIL", **DECLARED[MAIL])
def send_email(subject: str, draft: str, *, key: hf.Key = hf.Key("")) -> dict[str, Any]:  # noqa: B008
    begin("mail")
    if MAIL == "keyed":
        return post("/keyed-mail", {"subject": subject}, key)
    if MAIL != "draft":
        return post("/mail", {"subject": subject, "marker": key})
    try:
        return post(f"/drafts/{draft}/send")
    except urllib.error.HTTPError as error:
        if error.code != 410:
            raise
        return post(f"/sent/{draft}")  # it is gone because it was sent: this is what came of it


@app.tool(effect="read_only")
def list_files(folder: str) -> list[str]:
    begin("list_files")
    return sorted(path.name for path in (WORKSPACE / folder).iterdir())


# ── the agents ────────────────────────────────────────────────────────────────────────────────────


@app.agent
async def report(topic: str) -> dict[str, Any]:
    found = await task(topic)
    pdf = await render(found["output"], "report.pdf")
    uploaded = await upload(pdf["path"], pdf["sha256"])
    draft = await create_draft(topic) if MAIL == "draft" else ""
    receipt = await send_email(topic, draft)
    return {"uploaded": uploaded, "receipt": receipt}


@app.agent
async def reader(folder: str) -> list[str]:
    return await list_files(folder)
