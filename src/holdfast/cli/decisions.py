"""`holdfast cancel`, `resume`, `signal`, `answer`, `reconcile`, `approve`, `deny`, `raise`: what a person says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from holdfast.api.job_records import Accepted, SpanKind
from holdfast.cli.open_store import client_at
from holdfast.cli.options import by_option, json_option, operation_option, store_option
from holdfast.cli.output import plain, to_json, wait_for
from holdfast.client.client import Client
from holdfast.errors import InvalidPayload, InvalidSetting, NotFound
from holdfast.model import canonical
from holdfast.model.budget import Budget


def said(
    where: str, say: Callable[[Client], Awaitable[Accepted]], *, done: str, sent: str, as_json: bool
) -> None:
    """The word is said; data on stdout, what it means now on stderr."""

    async def speak() -> Accepted:
        async with client_at(where) as client:
            return await say(client)

    accepted = wait_for(speak())
    if as_json:
        click.echo(to_json(accepted))
        return
    again = " (it had been said before)" if accepted.repeated else ""
    click.echo(f"{done if accepted.at_once else sent}{again}", err=True)
    if not accepted.at_once:
        click.echo(f"  holdfast job {plain(accepted.job_id)}", err=True)


def given(argument: str | None) -> Any:
    """The JSON of an argument, or of the file behind an @."""
    if argument is None:
        return None
    text, place = argument, "the argument"
    if argument.startswith("@"):
        place = argument[1:]
        try:
            text = Path(place).read_text(encoding="utf-8")
        except FileNotFoundError:
            msg = f"there is no file {place}"
            raise NotFound(msg, hint="Name a file with JSON in it after the @.") from None
        except (OSError, UnicodeDecodeError) as error:
            msg = f"cannot read {place}: {error}"
            raise InvalidPayload(msg, hint="Name a file with JSON in UTF-8 after the @.") from None
    try:
        return canonical.decode(text.encode("utf-8", "surrogatepass"))
    except InvalidPayload as error:
        msg = f"{place}: {error}"
        hint = "Text needs quotes of its own: '\"paid\"'. A file is @name.json."
        raise InvalidPayload(msg, hint=hint) from None


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--why", default="", help="The reason, for the journal.")
@by_option
@operation_option
@store_option
@json_option
def cancel(job_id: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """End a job. It fires nothing more; what it has already sent is not called back.

    Example: holdfast cancel job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'ordered twice'
    """
    said(
        where,
        lambda client: client.cancel(job_id, why=why, by=by, operation_id=operation_id),
        done="cancelled",
        sent="asked: whoever drives it ends it before it fires anything more",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "--accept", is_flag=True, help="Let recorded calls rest that the code does not ask for any more."
)
@click.option("--why", default="", help="The reason, for the journal.")
@by_option
@operation_option
@store_option
@json_option
def resume(
    job_id: str, where: str, *, accept: bool, why: str, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Let a job go on that is held for a person: parked, stalled, restored, or a dead letter.

    Example: holdfast resume job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'the old code is back'
    """
    choice = "accept" if accept else "continue"
    said(
        where,
        lambda client: client.resume(job_id, choice=choice, why=why, by=by, operation_id=operation_id),
        done="it will be tried again, with attempts counted from nothing",
        sent="any worker that has code for it goes on with it",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE", help="What the signal carries.")
@by_option
@operation_option
@store_option
@json_option
def signal(
    job_id: str, name: str, where: str, *, data: str | None, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Send a signal to a job, with or without data.

    Example: holdfast signal job_06h57w4p2ksb3f1cqn8xv0zt6e paid:42 --data '{"cents": 4200}'
    """
    body = given(data)
    said(
        where,
        lambda client: client.signal(job_id, name, body, by=by, operation_id=operation_id),
        done="received",
        sent="sent: it is in the job's mail",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("words", metavar="ANSWER", required=False)
@click.option("--yes", "yes", flag_value=True, type=bool, default=None, help="Yes.")
@click.option("--no", "yes", flag_value=False, type=bool, help="No.")
@click.option("--question", metavar="QUESTION", help="Which one, if the job asks several.")
@by_option
@operation_option
@store_option
@json_option
def answer(
    job_id: str,
    words: str | None,
    where: str,
    *,
    yes: bool | None,
    question: str | None,
    by: str,
    operation_id: str | None,
    as_json: bool,
) -> None:
    """Answer what a job asks: --yes, --no, text, or JSON. `holdfast job ID` shows the question, and what fits.

    Example: holdfast answer job_06h57w4p2ksb3f1cqn8xv0zt6e --yes
    """
    if (words is None) == (yes is None):
        msg = "what is the answer?" if words is None else "two answers"
        raise InvalidSetting(msg, hint="Say --yes, --no, or the answer itself.")
    value: Any = yes if words is None else given(words) if words.startswith("@") else words
    said(
        where,
        lambda client: client.answer(job_id, value, question_id=question, by=by, operation_id=operation_id),
        done="answered",
        sent="answered: any worker that has code for it goes on with it",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("step")
@click.option(
    "--happened", "decision", flag_value="happened", help="It happened; --result is what it returned."
)
@click.option(
    "--not-happened",
    "decision",
    flag_value="not_happened",
    help="It did not; it is made again, under a new key.",
)
@click.option(
    "--skip", "decision", flag_value="skip", help="Leave it; the agent gets --result instead, or nothing."
)
@click.option(
    "--fail", "decision", flag_value="fail", help="Leave it; the agent gets an error with your reason."
)
@click.option("--result", metavar="JSON|@FILE", help="With --happened or --skip: what the agent gets.")
@click.option("--why", required=True, help="How you know; for the journal.")
@by_option
@operation_option
@store_option
@json_option
def reconcile(
    job_id: str,
    step: str,
    where: str,
    *,
    decision: str | None,
    result: str | None,
    why: str,
    by: str,
    operation_id: str | None,
    as_json: bool,
) -> None:
    """Say what became of a call that was cut off. STEP is its step key, or the tool's name if only one waits.

    Look at the receiver first: nobody asks again. `holdfast job ID` shows the arguments and the key it saw.

    Example: holdfast reconcile job_06h57w4p2ksb3f1cqn8xv0zt6e pay --happened --why 'it is on the statement'
    """
    if decision is None:
        msg = "what became of it?"
        raise InvalidSetting(msg, hint="Add one of --happened, --not-happened, --skip, --fail.")
    value = given(result)

    async def say(client: Client) -> Accepted:
        return await client.reconcile(
            job_id,
            await _step(client, job_id, step),
            decision,
            why=why,
            by=by,
            result=value,
            operation_id=operation_id,
        )

    sent = "noted: any worker that has code for it goes on with it"
    said(where, say, done=sent, sent=sent, as_json=as_json)


async def _step(client: Client, job_id: str, step: str) -> str:
    """The step key that is meant by it, or by the name of the only such call; uncertain ones first."""
    calls = [one for one in (await client.trace(job_id)).spans if one.kind is SpanKind.EFFECT]
    named = [one for one in calls if step in (one.name, one.step_key.rpartition("/")[2])]
    for among in ([one for one in named if one.outcome == "uncertain"], named):
        keys = {one.step_key for one in among}
        if len(keys) == 1 and step not in {one.step_key for one in calls}:
            return keys.pop()
    return step


@click.command()
@click.argument("approval", metavar="ID")
@click.option("--step", help="Which call, if ID is a job that waits for several.")
@click.option("--why", default="", help="The reason, for the journal.")
@by_option
@operation_option
@store_option
@json_option
def approve(
    approval: str, where: str, *, step: str | None, why: str, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Say yes to a call that waits for it. ID is the approval's, or the job's.

    Example: holdfast approve job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'called the customer'
    """
    said(
        where,
        lambda client: client.approve(approval, step_key=step, why=why, by=by, operation_id=operation_id),
        done="approved",
        sent="approved: any worker that has code for it goes on with it",
        as_json=as_json,
    )


@click.command()
@click.argument("approval", metavar="ID")
@click.option("--step", help="Which call, if ID is a job that waits for several.")
@click.option("--why", required=True, help="The reason, for the journal and the agent.")
@by_option
@operation_option
@store_option
@json_option
def deny(
    approval: str, where: str, *, step: str | None, why: str, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Say no to a call that waits for a yes. ID is the approval's, or the job's.

    Example: holdfast deny job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'too much'
    """
    said(
        where,
        lambda client: client.deny(approval, step_key=step, why=why, by=by, operation_id=operation_id),
        done="denied",
        sent="denied: any worker that has code for it goes on with it",
        as_json=as_json,
    )


@click.command("raise")
@click.argument("job_id", metavar="ID")
@click.option("--usd", metavar="DOLLARS", help="Money, as 5 or 0.25.")
@click.option("--tokens", type=int, help="Tokens of models.")
@click.option("--tool-calls", type=int, help="Calls of tools and steps.")
@click.option("--wall", metavar="DURATION", help="Time since the job was created, as 90m or 3d.")
@click.option("--depth", type=int, help="Levels of children.")
@click.option("--fan-out", type=int, help="Children of any one job.")
@click.option("--budget", "budget_id", metavar="ID", help="Whose budget, if several count for the job.")
@click.option("--why", default="", help="The reason, for the journal.")
@by_option
@operation_option
@store_option
@json_option
def raise_(
    job_id: str,
    where: str,
    *,
    budget_id: str | None,
    why: str,
    by: str,
    operation_id: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Raise limits of the budget that stopped a job. What you say is the new total; nothing is lowered.

    A budget counts for a whole tree of jobs: all of them that wait for it go on.

    Example: holdfast raise job_06h57w4p2ksb3f1cqn8xv0zt6e --usd 5 --why 'worth it'
    """
    asked = Budget(**limits)
    said(
        where,
        lambda client: client.raise_budget(
            job_id, asked, budget_id=budget_id, why=why, by=by, operation_id=operation_id
        ),
        done="raised",
        sent="raised: any worker that has code for it goes on with it",
        as_json=as_json,
    )
