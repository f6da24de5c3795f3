"""What the workers of these tests run: things that fail, wait, ask, are held up, and are written down when they happen.

mail(...)       unsafe: one line in `mails` for each that went out; while `hold` is there it never comes back
post(...)       unsafe: over SMTP, to whoever listens there
tidy(...)       read-only, and quick
changeling()    is other code while `changed` is there
forgetful()     waits for a reply that comes when `reply` is there; it is held after a second instead of ten minutes
"""

from __future__ import annotations

import asyncio
import os
import smtplib
from collections.abc import Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

import holdfast as hf
from holdfast.engine import stall_detector

stall_detector.LOOK_EVERY_S = stall_detector.REPORT_AFTER_S = 0.2  # type: ignore[misc]
stall_detector.HOLD_AFTER_S = 1.0  # type: ignore[misc]

FOLDER = Path(os.environ["HOLDFAST_UI_FOLDER"])

app = hf.App()


@app.tool(effect="read_only")
async def tidy(what: str) -> str:
    """Tidied up."""
    return f"{what} is tidy"


@app.tool(effect="unsafe", timeout="1s")
async def mail(to: str, text: str) -> str:
    """Send a letter."""
    with (FOLDER / "mails").open("a") as sent:
        sent.write(f"{to}: {text}\n")
    if (FOLDER / "hold").exists():
        await asyncio.get_running_loop().create_future()
    return f"sent to {to}"


@app.tool(effect="unsafe")
def post(to: str, subject: str) -> str:
    """Send an e-mail."""
    host, _, port = os.environ["HOLDFAST_UI_SMTP"].partition(":")
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = "shop@example.org", to, subject
    letter["Message-ID"] = f"<{subject}@example.org>"
    with smtplib.SMTP(host, int(port), timeout=30) as smtp:
        smtp.send_message(letter)
    return f"sent to {to}"


@app.tool(effect="idempotent", approve=lambda **_: True)
async def pay(to: str, cents: int, *, key: hf.Key = hf.KEY) -> str:
    """Send money."""
    return f"paid {cents} to {to}"


@app.agent
async def clerk(to: str) -> str:
    """Two looks side by side, and a letter."""
    async with hf.scope("looking"):
        first, second = await asyncio.gather(tidy("the desk"), tidy("the shelf"))
    return f"{first}, {second}, {await mail(to, 'Dear friend')}"


@app.agent
async def postman(to: str) -> str:
    return await post(to, "the report")


@app.agent
async def careful(to: str) -> str:
    """Goes on when its letter failed."""
    try:
        said = await mail(to, "Dear friend")
    except hf.CallFailed:
        return "it failed"
    return f"it said {said}"


@app.agent
async def treasurer(to: str, cents: int) -> str:
    try:
        return await pay(to, cents)
    except hf.Denied as error:
        return f"no: {error}"


@app.agent
async def painter() -> str:
    colour = await hf.ask("Which colour?", schema=Literal["red", "blue"])
    return f"painted {colour}"


@app.agent
async def changeling() -> str:
    """Sends one letter, or the other."""
    to = "eve" if (FOLDER / "changed").exists() else "ada"
    said = await mail(to, "from the changeling")
    await hf.wait("go")
    return said


async def wait_for_reply() -> None:
    if not (FOLDER / "reply").exists():
        await asyncio.get_running_loop().create_future()


@app.agent
async def forgetful() -> str:
    said = await tidy("the desk")
    await wait_for_reply()
    return said


@app.tool(effect="read_only")
async def browse() -> str:
    """Takes until `done` is there."""
    while not (FOLDER / "done").exists():  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.05)
    return "browsed"


@app.agent
async def busy() -> str:
    """Reads for long, and asks meanwhile."""
    read, colour = await asyncio.gather(browse(), hf.ask("Which colour?", schema=Literal["red", "blue"]))
    return f"{read}, {colour}"


@app.agent(budget=hf.Budget(tool_calls=1))
async def spender() -> str:
    return f"{await tidy('the desk')}, {await tidy('the shelf')}"


@app.agent
async def employer() -> str:
    return await hf.spawn(spender)


@app.agent
async def hopeless() -> str:
    if (FOLDER / "hope").exists():
        return "it works after all"
    msg = "this never works"
    raise LookupError(msg)


PRICES = {"tea": 3}


def find_price(item: str) -> int:
    return PRICES[item]


@app.tool(effect="read_only")
async def add_up(item: str) -> int:
    return find_price(item)


@app.agent
async def broken() -> int:
    return await add_up("coffee")


@app.agent
async def builder() -> str:
    plan = hf.Plan(
        [
            hf.Node("ground", tidy, {"what": "the ground"}),
            hf.Node("left", tidy, {"what": "the left wall"}, after=["ground"]),
            hf.Node("right", tidy, {"what": "the right wall"}, after=["ground"]),
        ]
    )
    return str(len(await hf.execute(plan)))


@app.agent
async def listener() -> str:
    return f"heard {await hf.wait('paid')}"


planner = hf.llm(
    [
        {"after": "mail", "text": "Done: {result}"},
        {"calls": [{"tool": "mail", "args": {"to": "ada", "text": "Dear friend"}}]},
    ]
)


@app.agent
async def secretary() -> str:
    """Sends the letter that a model wants."""
    messages: list[Mapping[str, Any]] = [hf.user("write to somebody")]
    while True:
        reply = await planner.ask(messages, tools=[mail])
        if not reply.calls:
            return reply.text
        messages += [reply.message, await hf.run_tools(reply.message, [mail])]


@app.agent
async def sleeper() -> None:
    await hf.sleep("1h")


gardener = app.assistant(
    "gardener",
    model=[{"when": "name", "text": "The first thing you told me was: {first}"}, "Good to hear from you."],
    instructions="Be brief.",
)
