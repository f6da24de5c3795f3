"""Questions to people: asked once, answered with a signal, and only by what fits.

The question is a fact, with what an answer looks like, so that whoever looks at the job sees what to say. The answer is
a signal named after the question. What does not fit is refused where it is said; if it comes another way, it is taken
and passed over, and the code hears nothing of it.
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
    """What is asked, of whom, and what an answer looks like, as a JSON schema."""

    text: str
    schema: Any
    to: str = ""
    timeout_us: int | None = None


async def ask(execution: Execution, question: Question, fits: Callable[[Any], bool]) -> Any:
    """The first answer that fits; TimeoutError, if none came in time since the code first came here."""
    with execution.scope("ask"):
        question_id, due_at = await _put(execution, question)
        try:
            while not fits(answer := await _answer(execution, question_id, due_at)):
                pass
        except TimeoutError:
            msg = f"no answer in time: {question.text}"
            raise TimeoutError(msg) from None
        return answer


async def _put(execution: Execution, question: Question) -> tuple[str, int | None]:
    """The question is a fact: as it was put the first time."""
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


async def _answer(execution: Execution, question_id: str, due_at: int | None) -> Any:
    """The next answer that came."""
    key, digest = execution.place().scope.key("answer"), digest_of(question_id)
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None and recorded.settled and await execution.past(recorded):
        return suspension.read_result(recorded)
    return await suspension.take(execution, key, digest, question_id, WaitReason.APPROVAL, due_at)


def _question_id(execution: Execution, key: str) -> str:
    place = f"{execution.owner.namespace}\0{execution.owner.job_id}\0{key}"
    return f"ask_{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:26]}"
