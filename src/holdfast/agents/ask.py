"""`hf.ask`: a question to a person, and an answer of a declared type.

    if await hf.ask("Approve the refund?", to="ops", timeout="2d"):
        await refund(order)

The job waits without a worker or a lease. `holdfast job` shows the question and the command that answers it; it
rejects an answer that does not fit. The code gets a value of the declared type, or a TimeoutError.
"""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.agents import context
from holdfast.agents.schemas import schema_of
from holdfast.agents.signatures import convert_value
from holdfast.engine import questions
from holdfast.engine.questions import Question
from holdfast.errors import InvalidPayload
from holdfast.model.ids import check_name
from holdfast.model.time import Duration, parse_duration

if TYPE_CHECKING:
    from typing import _SpecialForm

T = TypeVar("T")


@overload
async def ask(question: str, *, to: str = "", timeout: Duration | None = None) -> bool: ...


@overload
async def ask(question: str, *, schema: type[T], to: str = "", timeout: Duration | None = None) -> T: ...


@overload
async def ask(
    question: str, *, schema: UnionType | _SpecialForm, to: str = "", timeout: Duration | None = None
) -> Any: ...


async def ask(question: str, *, schema: Any = bool, to: str = "", timeout: Duration | None = None) -> Any:
    """Waits for a person's answer and returns it as `schema` declares: yes or no, text, a `Literal`, a dataclass, a
    model. Raises TimeoutError if there is no answer in time.

    to: the addressee, shown to operators; it does not restrict who may answer.
    """
    execution = context.drive("hf.ask")
    if to:
        check_name(to, "to")
    limit = None if timeout is None else parse_duration(timeout)
    request = Question(question, schema_of(schema, "the answer"), to, limit)

    def fits(answer: Any) -> bool:
        try:
            convert_value(answer, schema, "the answer")
        except InvalidPayload:
            return False
        return True

    return convert_value(await questions.ask(execution, request, fits), schema, "the answer")
