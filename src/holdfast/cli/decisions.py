"""`holdfast cancel`, `resume`, `signal`, `answer`, `reconcile`, `approve`, `deny`, `raise`: commands to a job."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, Final

import click

from holdfast.api.job_records import Accepted, SpanKind
from holdfast.cli.open_store import client_at
from holdfast.cli.options import by_option, json_option, operation_option, store_option
from holdfast.cli.output import plain, to_json, wait_for
from holdfast.client.client import Client
from holdfast.errors import InvalidPayload, InvalidSetting, NotFound
from holdfast.model import canonical
from holdfast.model.budget import Budget

STEPS_NAMED: Final = 12
"""Most step keys that an error names."""


def send_command(
    where: str, send: Callable[[Client], Awaitable[Accepted]], *, done: str, sent: str, as_json: bool
) -> None:
    """Sends a command to a job; data on stdout, its effect on stderr."""

    async def speak() -> Accepted:
        async with client_at(where) as client:
            return await send(client)

    accepted = wait_for(speak())
    if as_json:
        click.echo(to_json(accepted))
        return
    again = " (already received before)" if accepted.repeated else ""
    click.echo(f"{done if accepted.at_once else sent}{again}", err=True)
    if not accepted.at_once:
        click.echo(f"  holdfast job {plain(accepted.job_id)}", err=True)


def parse_argument(argument: str | None) -> Any:
    """The JSON of an argument, or of the file after an @."""
    if argument is None:
        return None
    text, place = argument, "the argument"
    if argument.startswith("@"):
        place = argument[1:]
        try:
            text = Path(place).read_text(encoding="utf-8")
        except FileNotFoundError:
            msg = f"there is no file {place}"
            raise NotFound(msg, hint="Give a JSON file after the @: --result @file.json") from None
        except (OSError, UnicodeDecodeError) as error:
            msg = f"cannot read {place}: {error}"
            raise InvalidPayload(msg, hint="Give a JSON file in UTF-8 after the @.") from None
    try:
        return canonical.decode(text.encode("utf-8", "surrogatepass"))
    except InvalidPayload as error:
        msg = f"{place}: {error}"
        hint = "JSON text needs quotes of its own: '\"paid\"'. To read a file: @name.json."
        raise InvalidPayload(msg, hint=hint) from None


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--why", default="", help="The reason; written to the journal.")
@by_option
@operation_option
@store_option
@json_option
def cancel(job_id: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """Cancel a job. It makes no further calls; calls that it has already made are not undone.

    Example: holdfast cancel job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'ordered twice'
    """
    send_command(
        where,
        lambda client: client.cancel(job_id, why=why, by=by, operation_id=operation_id),
        done="cancelled",
        sent="cancel requested: its worker cancels the job before its next call",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--accept", is_flag=True, help="Accept that the code no longer makes some recorded calls.")
@click.option("--why", default="", help="The reason; written to the journal.")
@by_option
@operation_option
@store_option
@json_option
def resume(
    job_id: str, where: str, *, accept: bool, why: str, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Continue a job that is held for a person: parked, stalled, restored, or a dead letter.

    Example: holdfast resume job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'the old code is back'
    """
    choice = "accept" if accept else "continue"
    send_command(
        where,
        lambda client: client.resume(job_id, choice=choice, why=why, by=by, operation_id=operation_id),
        done="requeued: the job is tried again, its attempts count from zero",
        sent="resumed: the job continues as soon as a worker claims it",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE", help="Payload of the signal.")
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
    body = parse_argument(data)
    send_command(
        where,
        lambda client: client.signal(job_id, name, body, by=by, operation_id=operation_id),
        done="delivered",
        sent="sent: the signal is in the job's mailbox",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("words", metavar="ANSWER", required=False)
@click.option("--yes", "yes", flag_value=True, type=bool, default=None, help="Answer yes.")
@click.option("--no", "yes", flag_value=False, type=bool, help="Answer no.")
@click.option("--question", metavar="QUESTION", help="Id of the question, if the job asks several.")
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
    """Answer a question of a job: --yes, --no, text, or JSON. `holdfast job ID` shows the question and its schema.

    Example: holdfast answer job_06h57w4p2ksb3f1cqn8xv0zt6e --yes
    """
    if (words is None) == (yes is None):
        msg = "the answer is missing" if words is None else "two answers were given"
        raise InvalidSetting(msg, hint="Give one: --yes, --no, or the answer itself.")
    value: Any = yes if words is None else parse_argument(words) if words.startswith("@") else words
    send_command(
        where,
        lambda client: client.answer(job_id, value, question_id=question, by=by, operation_id=operation_id),
        done="answered",
        sent="answered: the job continues as soon as a worker claims it",
        as_json=as_json,
    )


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("step")
@click.option(
    "--happened", "decision", flag_value="happened", help="The call happened; --result is what it returned."
)
@click.option(
    "--not-happened",
    "decision",
    flag_value="not_happened",
    help="The call did not happen: make it again, under a new idempotency key.",
)
@click.option(
    "--skip", "decision", flag_value="skip", help="Skip the call; the agent gets --result, or nothing."
)
@click.option(
    "--fail", "decision", flag_value="fail", help="Fail the call; the agent gets an error with your reason."
)
@click.option("--result", metavar="JSON|@FILE", help="With --happened or --skip: the result for the agent.")
@click.option("--why", required=True, help="How you know; written to the journal.")
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
    """Settle a call whose outcome is unknown. STEP is its step key, or the tool's name if only one such call waits.

    Check at the receiver first: the decision is final. `holdfast job ID` shows the arguments and the idempotency key.

    Example: holdfast reconcile job_06h57w4p2ksb3f1cqn8xv0zt6e pay --happened --why 'it is on the statement'
    """
    if decision is None:
        msg = f"no decision about {step}"
        raise InvalidSetting(msg, hint="Add one of --happened, --not-happened, --skip, --fail.")
    value = parse_argument(result)

    async def send(client: Client) -> Accepted:
        return await client.reconcile(
            job_id,
            await find_step(client, job_id, step, kinds={SpanKind.EFFECT}),
            decision,
            why=why,
            by=by,
            result=value,
            operation_id=operation_id,
        )

    sent = "recorded: the job continues as soon as a worker claims it"
    send_command(where, send, done=sent, sent=sent, as_json=as_json)


async def find_step(client: Client, job_id: str, name: str, *, kinds: Collection[SpanKind] = ()) -> str:
    """The step key for a key, the end of one, or the name of a tool; calls of unknown outcome first.

    A name that matches no step is returned unchanged: the command reports the error.
    """
    spans = [span for span in (await client.trace(job_id)).spans if not kinds or span.kind in kinds]
    keys = {span.step_key for span in spans}
    if name in keys:
        return name
    matches = [span for span in spans if name == span.name or f"/{span.step_key}".endswith(f"/{name}")]
    matches += [span for span in spans if span.step_key.rpartition("/")[2].rpartition("#")[0] == name]
    for among in ([span for span in matches if span.outcome == "uncertain"], matches):
        matching_keys = list(dict.fromkeys(span.step_key for span in among))
        if len(matching_keys) == 1:
            return matching_keys[0]
        if matching_keys:
            msg = f"{name!r} names {len(matching_keys)} steps of job {job_id}"
            raise InvalidSetting(
                msg, hint=f"Give the step key: {', '.join(map(shlex.quote, matching_keys[:STEPS_NAMED]))}."
            )
    return name


@click.command()
@click.argument("approval", metavar="ID")
@click.option("--step", help="Step key of the call, if ID is a job with several.")
@click.option("--why", default="", help="The reason; written to the journal.")
@by_option
@operation_option
@store_option
@json_option
def approve(
    approval: str, where: str, *, step: str | None, why: str, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Approve a call that waits for approval. ID is the approval's or the job's.

    Example: holdfast approve job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'called the customer'
    """
    send_command(
        where,
        lambda client: client.approve(approval, step_key=step, why=why, by=by, operation_id=operation_id),
        done="approved",
        sent="approved: the job continues as soon as a worker claims it",
        as_json=as_json,
    )


@click.command()
@click.argument("approval", metavar="ID")
@click.option("--step", help="Step key of the call, if ID is a job with several.")
@click.option("--why", required=True, help="The reason; for the journal and the agent.")
@by_option
@operation_option
@store_option
@json_option
def deny(
    approval: str, where: str, *, step: str | None, why: str, by: str, operation_id: str | None, as_json: bool
) -> None:
    """Deny a call that waits for approval. ID is the approval's or the job's.

    Example: holdfast deny job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'too much'
    """
    send_command(
        where,
        lambda client: client.deny(approval, step_key=step, why=why, by=by, operation_id=operation_id),
        done="denied",
        sent="denied: the job continues as soon as a worker claims it",
        as_json=as_json,
    )


@click.command("raise")
@click.argument("job_id", metavar="ID")
@click.option("--usd", metavar="DOLLARS", help="Dollars: 5 or 0.25.")
@click.option("--tokens", type=int, help="Model tokens.")
@click.option("--tool-calls", type=int, help="Calls of tools and steps.")
@click.option("--wall", metavar="DURATION", help="Time since the job was created: 90m, 3d.")
@click.option("--depth", type=int, help="Levels of children.")
@click.option("--fan-out", type=int, help="Children of any one job.")
@click.option("--budget", "budget_id", metavar="ID", help="Id of the budget, if several apply to the job.")
@click.option("--why", default="", help="The reason; written to the journal.")
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
    """Raise limits of the budget that stopped a job. Each value is the new total; limits are never lowered.

    A budget covers a whole tree of jobs: every job that waits for it continues.

    Example: holdfast raise job_06h57w4p2ksb3f1cqn8xv0zt6e --usd 5 --why 'worth it'
    """
    budget = Budget(**limits)
    send_command(
        where,
        lambda client: client.raise_budget(
            job_id, budget, budget_id=budget_id, why=why, by=by, operation_id=operation_id
        ),
        done="raised",
        sent="raised: the job continues as soon as a worker claims it",
        as_json=as_json,
    )
