"""The questions of a job: which are open, what fits, and what a person's words mean as an answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.api.job_records import Need
from holdfast.api.job_snapshot import Loaded
from holdfast.errors import Conflict, InvalidMove, InvalidPayload, NotFound
from holdfast.model import canonical
from holdfast.model import events as e
from holdfast.model.json_schema import find_fault
from holdfast.model.states import MailKind, WaitReason
from holdfast.model.step_keys import is_within, scope_of

CHOICES_MAX: Final = 6
_WORDS: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


class Put(msgspec.Struct, frozen=True):
    """A question that was put. `over`: why the job no longer waits for an answer; empty while it does."""

    at: int
    asked: e.QuestionAsked
    over: str = ""


def questions_of(job: Loaded) -> dict[str, Put]:
    """Every question that the job asked since its last commit, by its id."""
    found: dict[str, Put] = {}
    bodies: dict[int, Any] = {}
    for fact in job.facts:
        match fact.event:
            case e.QuestionAsked() as asked:
                found[asked.question_id] = Put(fact.at, asked)
            case e.SignalReceived(mail_seq=mail_seq, body=body):
                bodies[mail_seq] = body
            case e.SignalTaken(name=name, mail_seq=mail_seq) if name in found:
                if mail_seq is None:
                    _end(found, name, "the time to answer is over")
                elif find_fault(bodies[mail_seq], found[name].asked.schema) is None:
                    _end(found, name, "it has been answered")
            case e.CallCancelled(step_key=step_key):
                for name, put in found.items():
                    if is_within(scope_of(put.asked.step_key), step_key):
                        _end(found, name, "the code does not wait for it any more")
            case e.CheckpointSaved():
                found = {}
            case _:
                pass
    return found


def _end(found: dict[str, Put], name: str, why: str) -> None:
    found[name] = msgspec.structs.replace(found[name], over=why)


def _unread(job: Loaded, put: Put) -> bool:
    """Whether an answer lies in the mail that the job has not read yet."""
    return any(
        letter.kind is MailKind.SIGNAL
        and letter.name == put.asked.question_id
        and letter.mail_seq > job.job.mail_seq
        and find_fault(letter.body, put.asked.schema) is None
        for letter in job.letters
    )


def check_answer(job: Loaded, name: str, body: Any, *, now: int) -> None:
    """If this signal answers a question, then one that is open, and with what fits."""
    put = questions_of(job).get(name)
    if put is None:
        return
    look = f"`holdfast job {shlex.quote(job.head.job_id)}` shows what it waits for."
    if put.over:
        msg = f"the question {put.asked.question!r} is not open: {put.over}"
        raise InvalidMove(msg, hint=look)
    if _unread(job, put):
        msg = f"the question {put.asked.question!r} has been answered already"
        raise Conflict(msg, hint="The job reads the answer as soon as a worker claims it.")
    if put.asked.due_at is not None and put.asked.due_at <= now:
        msg = f"the question {put.asked.question!r} is not open: the time to answer is over"
        raise InvalidMove(msg, hint=look)
    if (why := find_fault(body, put.asked.schema)) is not None:
        msg = f"the answer does not match the schema of {put.asked.question!r}: {why}"
        raise InvalidPayload(msg, hint=f"The schema is: {canonical.encode(put.asked.schema).decode()}")


def question_needs(job: Loaded) -> Iterator[Need]:
    """The open questions, with what to type."""
    still_open = [put for put in questions_of(job).values() if not put.over and not _unread(job, put)]
    for put in still_open:
        asked = put.asked
        start = f"holdfast answer {shlex.quote(job.head.job_id)}"
        if len(still_open) > 1:
            start += f" --question {asked.question_id}"
        yield Need(
            job_id=job.head.job_id,
            job_kind=job.head.kind,
            job_status=job.head.status,
            reason=WaitReason.APPROVAL,
            since=put.at,
            what=f"Question{f' for {asked.to}' if asked.to else ''}: {asked.question}",
            step_key=asked.step_key,
            question_id=asked.question_id,
            due_at=asked.due_at,
            evidence=asked.schema,
            commands=tuple(f"{start} {words}" for words in _ways(asked.schema)),
        )


def _ways(schema: Any) -> list[str]:
    """How an answer may be typed."""
    schema = schema if isinstance(schema, dict) else {}
    choices = schema.get("enum") or []
    if schema.get("type") == "boolean":
        return ["--yes", "--no"]
    if choices and len(choices) <= CHOICES_MAX and all(isinstance(one, str) for one in choices):
        return [shlex.quote(one) for one in choices]
    return ["'TEXT'" if schema.get("type") == "string" else "'JSON'"]


def parse_answer(text: str, schema: Any) -> Any:
    """The answer behind words that somebody typed: text where text is asked for, yes and no, or JSON."""
    if find_fault(text, schema) is None:
        return text
    word = _WORDS.get(text.strip().lower())
    if word is not None and find_fault(word, schema) is None:
        return word
    try:
        return canonical.decode(text.encode("utf-8", "surrogatepass"))
    except InvalidPayload:
        return text  # the door says what is wrong with it


def match_answer(
    job: Loaded, said: Any, question_id: str | None, operation_id: str | None
) -> tuple[str, Any]:
    """The question that is meant, and the answer that these words are to it: the one that is named, the one that was
    meant when the same was said before, or the only one that is open."""
    asked = {
        fact.event.question_id: fact.event for fact in job.facts if isinstance(fact.event, e.QuestionAsked)
    }
    before = [letter.name for letter in job.letters if letter.operation_id == operation_id]
    if question_id is None and before and before[0] in asked:
        question_id = before[0]
    elif question_id is None:
        waiting = [need.question_id for need in question_needs(job) if need.question_id]
        if len(waiting) > 1:
            msg = f"job {job.head.job_id} has {len(waiting)} open questions"
            raise InvalidMove(msg, hint=f"Choose one: --question {' | '.join(waiting)}")
        question_id = waiting[0] if waiting else next(reversed(asked), None)
    if question_id is None or question_id not in asked:
        what = "has no open question" if question_id is None else f"has no question {question_id!r}"
        msg = f"job {job.head.job_id} {what}"
        raise NotFound(msg, hint=f"`holdfast job {shlex.quote(job.head.job_id)}` shows what it waits for.")
    body = parse_answer(said, asked[question_id].schema) if isinstance(said, str) else said
    return question_id, body
