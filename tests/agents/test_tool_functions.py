"""A tool is a function: what other libraries look at before they show it to a model and call it.

LangChain, Pydantic AI, the OpenAI Agents SDK and FastAPI look at functions through `inspect` and `typing`, and await
what `iscoroutinefunction` says is to be awaited. These are the questions they ask, for each kind of tool.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
import pytest

import holdfast as hf
from holdfast.agents.mcp import McpTool, Offer, mcp
from holdfast.agents.policy import Rule
from holdfast.agents.toolbox import file_tools
from holdfast.engine.durable_call import READS
from holdfast.errors import InvalidSetting

if TYPE_CHECKING:
    from decimal import Decimal

pytestmark = pytest.mark.store("sqlite")

APP = hf.App(store="memory://")
BANK = hf.secret("bank")


@APP.tool(effect="idempotent", key_lifetime="24h")
async def refund(
    order: str,
    cents: Annotated[int, "the amount"] = 5,
    *,
    token: hf.Secret = BANK,
    key: hf.Key = hf.KEY,
) -> str:
    """Pay money back."""
    return f"{order} {cents} {token}"


@APP.tool(effect="idempotent", key_lifetime="24h")
async def key_first(key: hf.Key, order: str, cents: Annotated[int, "the amount"] = 5) -> str:
    """Pay money back."""
    return f"{order} {cents}"


@APP.tool(effect="read_only")
def blocking(order: str, cents: Annotated[int, "the amount"] = 5, *, token: hf.Secret | None = None) -> str:
    """Pay money back."""
    return f"{order} {cents}"


@APP.step
async def step(order: str, cents: Annotated[int, "the amount"] = 5) -> str:
    """Pay money back."""
    return f"{order} {cents}"


@APP.step
def blocking_step(order: str, cents: Annotated[int, "the amount"] = 5) -> str:
    """Pay money back."""
    return f"{order} {cents}"


other_terms = refund.with_terms(READS)

KINDS: list[hf.Tool[..., Any]] = [refund, key_first, blocking, step, blocking_step, other_terms]
each_kind = pytest.mark.parametrize("tool", KINDS, ids=lambda tool: f"{tool.name} {tool.terms.effect}")


@each_kind
def test_inspect_sees_a_coroutine_function(tool: Any) -> None:
    looks = (inspect.isfunction, inspect.isroutine, inspect.iscoroutinefunction, asyncio.iscoroutinefunction)
    assert [look(tool) for look in looks] == [True] * 4
    assert inspect.iscoroutinefunction(functools.partial(tool, "o-1"))
    assert [isinstance(tool, kind) for kind in (hf.Tool, McpTool)] == [True, False]


@each_kind
def test_the_signature_has_what_a_caller_may_give(tool: Any) -> None:
    signature = inspect.signature(tool)
    assert list(signature.parameters) == ["order", "cents"]
    assert signature.parameters["cents"].default == 5
    assert signature.return_annotation is str
    assert inspect.signature(tool, eval_str=True) == signature
    assert typing.get_type_hints(tool) == {"order": str, "cents": int, "return": str}
    assert typing.get_type_hints(tool, include_extras=True)["cents"] == Annotated[int, "the amount"]
    assert list(inspect.get_annotations(tool, eval_str=True)) == ["order", "cents", "return"]


@each_kind
def test_it_has_the_names_of_the_function(tool: Any) -> None:
    assert (tool.__module__, tool.__doc__) == (__name__, "Pay money back.")
    assert tool.__name__ == tool.__qualname__ == tool.function.__name__
    assert inspect.unwrap(tool) is tool.function
    assert "Pay money back." in inspect.getsource(tool)


@each_kind
def test_it_is_copied_as_functions_are(tool: Any) -> None:
    assert copy.copy(tool) is tool
    assert copy.deepcopy([tool]) == [tool]


def test_it_is_pickled_by_its_name_as_functions_are() -> None:
    assert pickle.loads(pickle.dumps(refund)) is refund  # noqa: S301 - our own


@each_kind
async def test_a_library_that_validates_and_calls_it_gets_the_result(tool: Any) -> None:
    """As LangChain and FastAPI do: a model of the parameters from the signature, then a call by name."""
    fields: dict[str, Any] = {
        name: (one.annotation, ... if one.default is one.empty else one.default)
        for name, one in inspect.signature(tool).parameters.items()
    }
    given = pydantic.create_model("Arguments", **fields)(order="o-1")
    result = await _call_as_libraries_do(tool, **dict(given))
    assert result.startswith("o-1 5")


async def _call_as_libraries_do(function: Callable[..., Any], **arguments: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await asyncio.to_thread(function, **arguments)


async def test_pydantic_validates_its_calls() -> None:
    checked: Any = pydantic.validate_call(refund)
    assert (await checked("o-1", "7")).startswith("o-1 7")
    with pytest.raises(pydantic.ValidationError):
        await checked("o-1", "much")


def test_a_hint_that_only_a_type_checker_sees_stays_as_it_is_written() -> None:
    @APP.tool(effect="read_only")
    async def priced(amount: Decimal, order: str) -> str:
        return f"{amount} {order}"

    parameters = inspect.signature(priced).parameters
    assert [one.annotation for one in parameters.values()] == ["Decimal", str]


def test_a_tool_of_the_toolbox_is_a_function(tmp_path: Path) -> None:
    for tool in file_tools(str(tmp_path)):
        assert inspect.iscoroutinefunction(tool)
        assert isinstance(tool, hf.Tool)
        assert "key" not in inspect.signature(tool).parameters


def test_a_tool_of_an_mcp_server_is_a_function_with_its_own_name() -> None:
    server = mcp("files", ["true"])
    schema = {"type": "object", "properties": {"a-b": {"type": "string"}}}
    tool: Any = McpTool(server, Offer("read", schema, "Read a file."), "files.read", READS, Rule(pattern="*"))
    assert inspect.iscoroutinefunction(tool)
    assert [isinstance(tool, kind) for kind in (hf.Tool, McpTool)] == [True, True]
    assert (tool.__name__, tool.__doc__) == ("files.read", "Read a file.")
    assert str(inspect.signature(tool)) == "(**arguments: Any)"
    assert inspect.unwrap(tool) is tool


def test_other_terms_make_another_function() -> None:
    assert other_terms is not refund
    assert other_terms.terms.effect == "read_only"
    assert refund.terms.effect == "idempotent"
    assert other_terms.with_terms(refund.terms).terms.effect == "idempotent"


async def test_inside_a_job_a_library_calls_it_durably(tmp_path: Path) -> None:
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    keys: list[str] = []

    @app.tool(effect="idempotent", key_lifetime="24h")
    async def pay(order: str, *, key: hf.Key = hf.KEY) -> str:
        keys.append(key)
        return order

    @app.agent
    async def support(order: str) -> str:
        return str(await _call_as_libraries_do(pay, order=order))

    async with app.running():
        assert await support("o-1") == "o-1"
    assert len(keys) == 1
    assert keys[0]


def test_a_function_around_a_tool_is_not_the_tool() -> None:
    @functools.wraps(refund)
    async def logged(*args: Any, **kwargs: Any) -> str:
        return await refund(*args, **kwargs)

    assert list(inspect.signature(logged).parameters) == ["order", "cents"]
    assert not isinstance(logged, hf.Tool)
    assert not isinstance(object(), hf.Tool)
    with pytest.raises(InvalidSetting, match="neither a tool"):
        hf.schemas(logged)  # type: ignore[call-overload]
