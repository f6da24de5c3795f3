"""The agent of the demonstration: reads three sources at once, writes a PDF, uploads it and mails the link.

Each tool declares what repeating it would do. Holdfast needs no other information.
"""

from __future__ import annotations

import json
import os
import smtplib
import urllib.parse
import urllib.request
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from holdfast.demo.pdf import make_pdf

HTTP: Final = os.environ.get("DEMO_HTTP", "http://127.0.0.1:8090")
SMTP: Final = os.environ.get("DEMO_SMTP", "127.0.0.1:8025")
FOLDER: Final = Path(os.environ.get("DEMO_FOLDER", "."))
WITNESS: Final = FOLDER / "finished.log"

app = hf.App()
llm = hf.llm(f"scripted:{Path(__file__).with_name('model.toml')}")


def call(path: str, body: bytes | None = None, key: str = "") -> Any:
    request = urllib.request.Request(HTTP + path, body, {"Idempotency-Key": key})  # noqa: S310 - our own receiver
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.load(answer)


def read_finished_tools(tool: str) -> None:
    """Append a line for each tool that ran to its end, independently of the journal."""
    with WITNESS.open("a", encoding="utf-8") as file:
        file.write(f"{tool}\n")


@app.tool(effect="read_only")  # run again if it was interrupted
def read(source: str) -> str:
    """Read a source."""
    text = str(call(f"/sources/{urllib.parse.quote(source)}")["text"])
    read_finished_tools(f"read {source}")
    return text


@app.tool(effect="idempotent")  # the same bytes in the same place, however often
def render(title: str) -> str:
    """Write the report as a PDF; returns its path."""
    path = FOLDER / "report.pdf"
    path.write_bytes(make_pdf(title, "Kelp holds on to the rock with a root that is none."))
    read_finished_tools("render")
    return str(path)


@app.tool(effect="idempotent", key_lifetime="24h")  # the receiver knows keys, for a day
def upload(path: str, *, key: hf.Key = hf.KEY) -> str:
    """Upload the report; returns its address."""
    url = str(call("/files", Path(path).read_bytes(), key)["url"])
    read_finished_tools("upload")
    return url


def was_delivered(key: str, _args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    """Probe: asks the mailbox, like an IMAP folder, whether it has a message with this id."""
    found = call(f"/mailbox?message_id={urllib.parse.quote(message_id(key))}")["found"]
    return hf.Happened("delivered") if found else hf.NotHappened()


@app.tool(
    effect="verifiable", probe=was_delivered, timeout="1s"
)  # SMTP has no idempotency keys, but the mailbox can be probed
def send_email(to: str, link: str, *, key: hf.Key = hf.KEY) -> str:
    """Mail the link."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "agent@example.org", to, "Your report"
    message["Message-ID"] = message_id(key)
    message.set_content(f"Here it is: {link}")
    host, _, port = SMTP.partition(":")
    with smtplib.SMTP(host, int(port), timeout=30) as smtp:
        smtp.send_message(message)
    read_finished_tools("send_email")
    return "delivered"


def message_id(key: str) -> str:
    return f"<{key}@example.org>"


TOOLS: Final[list[Any]] = [read, render, upload, send_email]


@app.agent
async def report(topic: str, to: str) -> str:
    messages = [hf.user(f"Write a report on {topic} and mail it to {to}.")]
    while True:
        reply = await llm.ask(messages, tools=TOOLS)
        if not reply.calls:
            return reply.text
        messages += [reply.message, await hf.run_tools(reply, TOOLS)]
