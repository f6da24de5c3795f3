"""`hf.llm`: any model by its name, with one request method.

    llm = hf.llm("anthropic:claude-sonnet-4-5")     # or openai:gpt-5, or scripted:answers.toml

    reply = await llm.ask([hf.user("where is order 42?")], tools=[lookup])
    reply.text, reply.calls, reply.message

In an agent's own code a request is a durable step, and its output is streamed to the watchers of the job. Requests to
providers go through the providers' own clients, which must be installed; a scripted model needs none.
"""

from __future__ import annotations

import asyncio
import importlib
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

import msgspec

from holdfast.agents.models import sse
from holdfast.agents.models.anthropic_wire import AnthropicGathering
from holdfast.agents.models.client_transport import asking, wrap
from holdfast.agents.models.durable_request import KNOWN, Exchange, KnownRequest
from holdfast.agents.models.messages import Said, from_chat, to_chat
from holdfast.agents.models.openai_wire import ChatWire
from holdfast.agents.models.prices import Price
from holdfast.agents.models.provider_limits import Limits, patience_of
from holdfast.agents.models.provider_response import BAD, Live, Unreachable
from holdfast.agents.models.response_cache import Cache
from holdfast.agents.models.script import Script, read_script, script_of
from holdfast.agents.models.scripted_provider import WIRE, Provider
from holdfast.agents.models.wire_format import Body, TokenUsage
from holdfast.agents.schemas import schemas
from holdfast.errors import CallFailed, InvalidSetting
from holdfast.model.retry import Retry
from holdfast.model.time import Duration

TOKENS_MAX: Final = 4096
CHAT: Final = ChatWire()


class ModelQuestion(msgspec.Struct, frozen=True):
    """A tool call that the model requests."""

    id: str
    name: str
    args: Any


class Reply(msgspec.Struct, frozen=True):
    """A model's reply. `message` is for the conversation; `stop_reason` is the provider's own word for why it
    stopped."""

    message: Said
    stop_reason: str = ""
    usage: TokenUsage = TokenUsage()

    @property
    def content(self) -> list[Any]:
        """The blocks of the message."""
        blocks: Any = self.message["content"]
        return cast("list[Any]", blocks)

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def calls(self) -> tuple[ModelQuestion, ...]:
        return tuple(
            ModelQuestion(block["id"], block["name"], block["input"])
            for block in self.content
            if block["type"] == "tool_use"
        )


class Model:
    """A model by its name. Made by `hf.llm`."""

    def __init__(self, name: str, complete: Callable[[Body], Awaitable[Reply]]) -> None:
        self.name = name
        self._complete = complete

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        instructions: str = "",
        tools: Iterable[Any] = (),
        max_tokens: int = TOKENS_MAX,
        must_call: str = "",
        known: KnownRequest | None = None,
    ) -> Reply:
        """Requests the model's next message in this conversation. `tools` are tools, agents or schemas.

        must_call: the tool that the model has to call. known: the first messages that are already stored under a
        name; they are not stored again.
        """
        body: Body = {"messages": list(messages), "max_tokens": max_tokens}
        if instructions:
            body["system"] = instructions
        declared = _declared(tools)
        if declared:
            body["tools"] = declared
        if must_call:
            body["tool_choice"] = {"type": "tool", "name": must_call}
        token = KNOWN.set(known)
        try:
            return await self._complete(body)
        finally:
            KNOWN.reset(token)

    async def close(self) -> None:
        """Closes the connections of this event loop to the provider. The next request opens new ones."""
        close = getattr(self._complete, "close", None)
        if close is not None:
            await close()

    def __repr__(self) -> str:
        return f"<model {self.name}>"


def llm(
    name: str | Script | Sequence[Any],
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    fallback: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    prices: Mapping[str, Price] | None = None,
    cache: Cache | None = None,
) -> Model:
    """The model of this name: `anthropic:…`, `openai:…` (any compatible server, by `base_url`), or
    `scripted:file.toml`. A list of replies is a scripted model, too. The other parameters are those of `hf.wrap`."""
    if not isinstance(name, str):
        script = name if isinstance(name, Script) else script_of(name)
        return Model(
            "scripted", _scripted("scripted", script, _exchange(retry, timeout, limits, prices, cache))
        )
    provider, _, model_name = name.partition(":")
    options: dict[str, Any] = {
        "retry": retry,
        "timeout": timeout,
        "fallback": fallback,
        "limits": limits,
        "prices": prices,
        "cache": cache,
    }
    where = {key: value for key, value in {"base_url": base_url, "api_key": api_key}.items() if value}
    match provider:
        case "scripted" if model_name:
            script = read_script(model_name)
            return Model(
                name,
                _scripted(
                    PurePath(model_name).name, script, _exchange(retry, timeout, limits, prices, cache)
                ),
            )
        case "anthropic" if model_name:
            return Model(name, _Claude(model_name, where, options))
        case "openai" if model_name:
            return Model(name, _Gpt(model_name, where, options))
        case _:
            msg = f"{name!r} is not the name of a model"
            raise InvalidSetting(msg, hint="Write anthropic:NAME, openai:NAME or scripted:FILE.")


def _exchange(
    retry: Retry | None,
    timeout: Duration | None,
    limits: Limits | None,
    prices: Mapping[str, Price] | None,
    cache: Cache | None,
) -> Exchange:
    return Exchange(patience=patience_of(retry, timeout, None, limits), prices=prices or {}, cache=cache)


def _declared(tools: Iterable[Any]) -> list[Any]:
    return [tool if isinstance(tool, dict) else schemas(tool)[0] for tool in tools]


# ── scripts ───────────────────────────────────────────────────────────────────────────────────────


def _scripted(name: str, script: Script, exchange: Exchange) -> Callable[[Body], Awaitable[Reply]]:
    provider = Provider(script)

    async def complete(body: Body) -> Reply:
        body = {"model": name, "stream": True, **body}
        execution = asking()
        if execution is None:
            return await _gathered(await provider.send(body))
        try:
            served = await exchange.serve(execution, WIRE, body, provider.send)
        except Unreachable as error:
            raise _cut_off(error) from error
        try:
            pieces = (
                [served.body] if isinstance(served.body, bytes) else [piece async for piece in served.body]
            )
        except Unreachable as error:
            raise _cut_off(error) from error
        finally:
            if served.close is not None:
                await served.close()
        return _reply(served.status, b"".join(pieces))

    return complete


def _cut_off(error: Unreachable) -> CallFailed:
    return CallFailed(f"the scripted model was cut off: {error}", error_type="ModelError")


async def _gathered(live: Live) -> Reply:
    return _reply(live.status, b"".join([piece async for piece in live.pieces()]))


def _reply(status: int, data: bytes) -> Reply:
    if status >= BAD:
        error = msgspec.json.decode(data)
        raise CallFailed(
            f"the scripted model answered {status}: {error['error']['message']}", error_type="ModelError"
        )
    gathering = AnthropicGathering()
    for name, text in sse.SseReader().feed(data):
        gathering.take(name, text)
    return _from_claude(gathering.message())


def _from_claude(message: Body) -> Reply:
    content_message: Any = {"role": "assistant", "content": message["content"]}
    return Reply(content_message, message.get("stop_reason") or "", WIRE.usage(message))


# ── providers ─────────────────────────────────────────────────────────────────────────────────────


class _Clients:
    """A provider's client, one for each event loop: its connections belong to the loop that made them."""

    def __init__(self, make: Callable[[], Any], options: dict[str, Any]) -> None:
        self._make = make
        self._options = options
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    def here(self) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = wrap(self._make(), **self._options)
        return self._made[loop]

    async def close(self) -> None:
        client = self._made.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


class _Claude:
    """Anthropic's models, through its client."""

    def __init__(self, name: str, where: dict[str, str], options: dict[str, Any]) -> None:
        self._name = name
        self._clients = _Clients(lambda: _installed("anthropic").AsyncAnthropic(**where), options)
        self.close = self._clients.close

    async def __call__(self, body: Body) -> Reply:
        async with self._clients.here().messages.stream(model=self._name, **body) as stream:
            final = await stream.get_final_message()
        return _from_claude(final.to_dict(mode="json"))


class _Gpt:
    """OpenAI's models, and those of every server that speaks its API."""

    def __init__(self, name: str, where: dict[str, str], options: dict[str, Any]) -> None:
        self._name = name
        self._clients = _Clients(lambda: _installed("openai").AsyncOpenAI(**where), options)
        self.close = self._clients.close

    async def __call__(self, body: Body) -> Reply:
        system, known = body.get("system", ""), KNOWN.get()
        request: Body = {"messages": to_chat(body["messages"], system)}
        if known is not None:
            KNOWN.set(KnownRequest(len(to_chat(body["messages"][: known.count], system)), known.name))
        if body.get("tools"):
            request["tools"] = [_function(tool) for tool in body["tools"]]
        if "tool_choice" in body:
            request["tool_choice"] = {"type": "function", "function": {"name": body["tool_choice"]["name"]}}
        stream = await self._clients.here().chat.completions.create(
            model=self._name,
            max_completion_tokens=body["max_tokens"],
            stream=True,
            stream_options={"include_usage": True},
            **request,
        )
        gathering = CHAT.gathering(request)
        async for chunk in stream:
            gathering.take("", chunk.to_json(indent=None))
        completion = gathering.message()
        message, stop = from_chat(completion)
        return Reply(cast("Said", message), stop, CHAT.usage(completion))


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function = {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["input_schema"],
    }
    return {"type": "function", "function": function}


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        msg = f"the client for {name}: models is not installed"
        raise InvalidSetting(msg, hint=f'Type: pip install "holdfast[{name}]"') from None
