"""Questions to people: asked once, answered with a signal that must match a schema.

The question is an event, with the schema of its answer, so that a person who inspects the job sees what to answer. The
answer is a signal named after the question. The API rejects an answer that does not match; if one comes another way,
it is taken and ignored, and the code does not get it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.engine import suspension
from holdfast.engine.durable_call import digest_of
from holdfast.engine.execution import Execution
from holdfast.model.events import QuestionAsked
from holdfast.model.states import WaitReason


class Question(msgspec.Struct, frozen=True):
    """A question: its text, the person it is for, and the JSON schema of its answer."""

    text: str
    schema: Any
    to: str = ""
    timeout_us: int | None = None


async def ask(execution: Execution, question: Question, fits: Callable[[Any], bool]) -> Any:
    """Returns the first answer that fits; TimeoutError, if none came in time since the code first called it."""
    with execution.scope("ask"):
        question_id, due_at = await _record_question(execution, question)
        try:
            while not fits(answer := await _take_answer(execution, question_id, due_at)):
                pass
        except TimeoutError:
            msg = f"no answer in time: {question.text}"
            raise TimeoutError(msg) from None
        return answer


async def _record_question(execution: Execution, question: Question) -> tuple[str, int | None]:
    """Records the question; in a replay it is the one of the first run."""
    key, digest = execution.place().scope.key("question"), digest_of(msgspec.to_builtins(question))
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None:
        return recorded.name, recorded.due_at
    event = QuestionAsked(
        _question_id(execution, key),
        key,
        question.text,
        question.schema,
        question.to,
        None if question.timeout_us is None else execution.latest_us() + question.timeout_us,
        digest,
    )
    execution.note(event)
    return event.question_id, event.due_at


async def _take_answer(execution: Execution, question_id: str, due_at: int | None) -> Any:
    """Returns the next answer."""
    key, digest = execution.place().scope.key("answer"), digest_of(question_id)
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None and recorded.settled and await execution.wait_for_outcome(recorded):
        return suspension.read_result(recorded)
    return await suspension.take_signal(execution, key, digest, question_id, WaitReason.APPROVAL, due_at)


def _question_id(execution: Execution, key: str) -> str:
    place = f"{execution.owner.namespace}\0{execution.owner.job_id}\0{key}"
    return f"ask_{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:26]}"
