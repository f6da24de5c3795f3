"""Questions of a job: which are open, which answers fit, and how a person's text is read as an answer."""

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
    """A question of a job. `over`: why the job no longer waits for an answer; empty while it does."""

    at: int
    asked: e.QuestionAsked
    over: str = ""


def questions_of(job: Loaded) -> dict[str, Put]:
    """Every question that the job asked since its last commit, by its id."""
    questions: dict[str, Put] = {}
    bodies: dict[int, Any] = {}
    for fact in job.facts:
        match fact.event:
            case e.QuestionAsked() as event:
                questions[event.question_id] = Put(fact.at, event)
            case e.SignalReceived(mail_seq=mail_seq, body=body):
                bodies[mail_seq] = body
            case e.SignalTaken(name=name, mail_seq=mail_seq) if name in questions:
                if mail_seq is None:
                    _end(questions, name, "the time to answer is over")
                elif find_fault(bodies[mail_seq], questions[name].asked.schema) is None:
                    _end(questions, name, "it has been answered")
            case e.CallCancelled(step_key=step_key):
                for name, question in questions.items():
                    if is_within(scope_of(question.asked.step_key), step_key):
                        _end(questions, name, "the code does not wait for it any more")
            case e.CheckpointSaved():
                questions = {}
            case _:
                pass
    return questions


def _end(questions: dict[str, Put], name: str, why: str) -> None:
    questions[name] = msgspec.structs.replace(questions[name], over=why)


def _unread(job: Loaded, question: Put) -> bool:
    """Whether the job's mailbox holds an unread answer."""
    return any(
        mail.kind is MailKind.SIGNAL
        and mail.name == question.asked.question_id
        and mail.mail_seq > job.job.mail_seq
        and find_fault(mail.body, question.asked.schema) is None
        for mail in job.letters
    )


def check_answer(job: Loaded, name: str, body: Any, *, now: int) -> None:
    """Checks a signal that answers a question: the question must be open, and the answer must fit."""
    question = questions_of(job).get(name)
    if question is None:
        return
    look = f"`holdfast job {shlex.quote(job.head.job_id)}` shows what it waits for."
    if question.over:
        msg = f"the question {question.asked.question!r} is not open: {question.over}"
        raise InvalidMove(msg, hint=look)
    if _unread(job, question):
        msg = f"the question {question.asked.question!r} has been answered already"
        raise Conflict(msg, hint="The job reads the answer as soon as a worker claims it.")
    if question.asked.due_at is not None and question.asked.due_at <= now:
        msg = f"the question {question.asked.question!r} is not open: the time to answer is over"
        raise InvalidMove(msg, hint=look)
    if (why := find_fault(body, question.asked.schema)) is not None:
        msg = f"the answer does not match the schema of {question.asked.question!r}: {why}"
        raise InvalidPayload(msg, hint=f"The schema is: {canonical.encode(question.asked.schema).decode()}")


def question_needs(job: Loaded) -> Iterator[Need]:
    """The open questions, with the commands that answer them."""
    still_open = [
        question
        for question in questions_of(job).values()
        if not question.over and not _unread(job, question)
    ]
    for question in still_open:
        event = question.asked
        start = f"holdfast answer {shlex.quote(job.head.job_id)}"
        if len(still_open) > 1:
            start += f" --question {event.question_id}"
        yield Need(
            job_id=job.head.job_id,
            job_kind=job.head.kind,
            job_status=job.head.status,
            reason=WaitReason.APPROVAL,
            since=question.at,
            what=f"Question{f' for {event.to}' if event.to else ''}: {event.question}",
            step_key=event.step_key,
            question_id=event.question_id,
            due_at=event.due_at,
            evidence=event.schema,
            commands=tuple(f"{start} {option}" for option in _ways(event.schema)),
        )


def _ways(schema: Any) -> list[str]:
    """The ways to type an answer."""
    schema = schema if isinstance(schema, dict) else {}
    choices = schema.get("enum") or []
    if schema.get("type") == "boolean":
        return ["--yes", "--no"]
    if choices and len(choices) <= CHOICES_MAX and all(isinstance(choice, str) for choice in choices):
        return [shlex.quote(choice) for choice in choices]
    return ["'TEXT'" if schema.get("type") == "string" else "'JSON'"]


def parse_answer(text: str, schema: Any) -> Any:
    """The answer in the text that a person typed: text if the schema takes text, yes or no, or JSON."""
    if find_fault(text, schema) is None:
        return text
    boolean = _WORDS.get(text.strip().lower())
    if boolean is not None and find_fault(boolean, schema) is None:
        return boolean
    try:
        return canonical.decode(text.encode("utf-8", "surrogatepass"))
    except InvalidPayload:
        return text  # the check rejects it with the reason


def match_answer(
    job: Loaded, answer: Any, question_id: str | None, operation_id: str | None
) -> tuple[str, Any]:
    """The question that an answer belongs to, and the answer as a value: the named question, that of the first time
    for a repeated command, or the only open one."""
    questions = {
        fact.event.question_id: fact.event for fact in job.facts if isinstance(fact.event, e.QuestionAsked)
    }
    before = [mail.name for mail in job.letters if mail.operation_id == operation_id]
    if question_id is None and before and before[0] in questions:
        question_id = before[0]
    elif question_id is None:
        waiting = [need.question_id for need in question_needs(job) if need.question_id]
        if len(waiting) > 1:
            msg = f"job {job.head.job_id} has {len(waiting)} open questions"
            raise InvalidMove(msg, hint=f"Choose one: --question {' | '.join(waiting)}")
        question_id = waiting[0] if waiting else next(reversed(questions), None)
    if question_id is None or question_id not in questions:
        problem = "has no open question" if question_id is None else f"has no question {question_id!r}"
        msg = f"job {job.head.job_id} {problem}"
        raise NotFound(msg, hint=f"`holdfast job {shlex.quote(job.head.job_id)}` shows what it waits for.")
    body = parse_answer(answer, questions[question_id].schema) if isinstance(answer, str) else answer
    return question_id, body
