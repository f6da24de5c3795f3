"""Tools of MCP servers: other people's functions, called as durably as one's own.

    files = hf.mcp("files", ["npx", "server-files", "data"])                  # a program, over its stdin and stdout
    github = hf.mcp("github", url="https://mcp.example.com/mcp",              # or a server, over HTTP
                    headers={"Authorization": …}, policy=hf.Policy.read("tools.toml"))

    @hf.agent
    async def helper(question: str) -> str:
        tools = [lookup, *await files.tools(), *await github.tools()]
        …

A server is named once, beside the agents, and connected to when it is first needed: in whichever process the job runs
just then. What it offers is recorded in the job, so that a job that is resumed has the tools it began with.

What a call may do twice is decided by what is declared, the policy before the server: a rule's class; else `read_only`,
if the server says so; else `idempotent`, if the server says so *and* a rule says where the key goes; else `unsafe`. The
hints of a server that is not trusted are left out with `trust_hints=False`.

A call's outcome: the server's answer is its result, an error that the tool reports included. A server that cannot be
reached, or that does not know the tool or its arguments, has done nothing (`Refused`). Anything else (it died, it
hangs, it says "internal error") is not known, and recovered by the class.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Self

import msgspec

from holdfast.agents.mcp_wire import POST, McpConnection, Post, Target
from holdfast.agents.policy import Policy, Rule
from holdfast.agents.secrets import Secret
from holdfast.agents.signatures import Arguments, Declared, Signature, plain
from holdfast.agents.text_limits import shorten, text_of, whole
from holdfast.agents.tools import Tool
from holdfast.engine.durable_call import READS, CallPolicy
from holdfast.errors import CallFailed, InvalidPayload, InvalidSetting, Refused
from holdfast.model.ids import check_name
from holdfast.model.limits import KIB
from holdfast.model.side_effects import Effect
from holdfast.model.time import SECOND, Duration, parse_duration

RESULT_TEXT_MAX: Final = 512 * KIB
PAGES_MAX: Final = 100

_DID_NOTHING: Final = frozenset({-32700, -32601, -32602})
"""What JSON-RPC calls parse error, method not found and invalid params: said before a tool is called."""

_FAILED: Final = "holdfast.mcp.failed"
"""Marks the recorded answer of a tool that reported an error."""


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as its server describes it."""

    name: str
    schema: dict[str, Any]
    description: str = ""
    read_only: bool = False
    idempotent: bool = False


def mcp(
    name: str,
    command: Sequence[str] | None = None,
    *,
    url: str | None = None,
    env: Mapping[str, str | Secret] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    policy: Policy | None = None,
    only: Iterable[str] = ("*",),
    timeout: Duration = "1m",
    trust_hints: bool = True,
) -> McpServer:
    """An MCP server under a name of your choice; its tools are called `name.tool`. Nothing is started yet.

    command: a program that speaks MCP on its stdin and stdout; it sees a few harmless variables of the environment, and
    `env`. url: instead, a server that speaks it over HTTP (streamable HTTP). policy: rules for tools by their whole
    name. only: the tools that are offered on, by the server's own names; patterns as in a shell. timeout: how long one
    call may take, unless a rule says otherwise.
    """
    if (command is None) == (url is None):
        msg = f"the MCP server {name} needs either a command or a url"
        raise InvalidSetting(
            msg, hint='Say hf.mcp("files", ["program", "argument"]) or hf.mcp("web", url="https://…").'
        )
    if isinstance(command, str):
        msg = f"the command of the MCP server {name} is one text"
        raise InvalidSetting(msg, hint='Give its words one by one: ["npx", "server-files", "data"].')
    target = Target(
        check_name(name, "server name"),
        command=tuple(command or ()),
        url=url or "",
        env=dict(env or {}),
        cwd=cwd,
        headers=dict(headers or {}),
    )
    return McpServer(
        target,
        policy=policy or Policy(),
        only=tuple(only),
        longest_us=parse_duration(timeout),
        trust_hints=trust_hints,
    )


class McpServer:
    """An MCP server, and what its tools are to us. Made by `hf.mcp`."""

    def __init__(
        self, target: Target, *, policy: Policy, only: tuple[str, ...], longest_us: int, trust_hints: bool
    ) -> None:
        self.name = target.name
        self._target = target
        self._policy = policy
        self._only = only
        self._longest_us = longest_us
        self._trust_hints = trust_hints
        self._listing: Tool[[], list[Offer]] = Tool(self._offers, name=f"{self.name}.tools", terms=READS)
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, McpConnection] = (
            weakref.WeakKeyDictionary()
        )

    async def tools(self) -> list[McpTool]:
        """The tools that the server offers. Inside a job they are recorded: resumed, it has the same ones again."""
        return [self._tool(offer) for offer in await self._listing()]

    async def close(self) -> None:
        """The connection of this event loop is closed, and a program that was started has ended."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_why: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<MCP server {self.name}>"

    async def call(
        self, tool: str, arguments: dict[str, Any], meta: dict[str, Any] | None, longest_us: int
    ) -> Any:
        """The server's answer."""
        client = await self._client()
        from mcp import MCPError  # here it is certainly there

        post = Post()
        token = POST.set(post)
        try:
            return await client.call_tool(tool, arguments, longest_us / SECOND, meta=meta)
        except MCPError as error:
            if post.reached_nobody:
                msg = f"the MCP server {self.name} cannot be reached: {error.message}"
                raise Refused(msg, hint="Nothing was sent. Try again later, or another way.") from error
            if error.code in _DID_NOTHING:
                raise Refused(
                    error.message, hint="The server rejected the call and did nothing. Correct the arguments."
                ) from error
            raise
        finally:
            POST.reset(token)

    async def _offers(self) -> list[Offer]:
        client = await self._client()
        offers: list[Offer] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await client.list_tools(cursor=cursor)
            offers += [
                _offer(one) for one in page.tools if any(fnmatchcase(one.name, word) for word in self._only)
            ]
            cursor = page.next_cursor
            if not cursor:
                return offers
        msg = f"the MCP server {self.name} lists tools without end"
        raise InvalidPayload(msg, hint="Ask the operator of that server.")

    async def _client(self) -> Any:
        """The client of this event loop. One that has lost its server is replaced: nothing was sent over it yet."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None or connection.is_over:
            connection = self._connections[loop] = McpConnection(self._target)
        return await connection.client()

    def _tool(self, offer: Offer) -> McpTool:
        name = f"{self.name}.{offer.name}"
        found = self._policy.find_rule(name)
        rule = found or Rule(pattern=name)
        terms = CallPolicy(effect=self._effect(offer, rule), longest_call_us=self._longest_us)
        return McpTool(self, offer, name, self._policy.apply_rule(found, rule.terms(terms)), rule)

    def _effect(self, offer: Offer, rule: Rule) -> Effect:
        if self._trust_hints and offer.read_only:
            return Effect.READ_ONLY
        if self._trust_hints and offer.idempotent and rule.honours_key:
            return Effect.IDEMPOTENT
        return Effect.UNSAFE


class McpTool(Tool[..., Any]):
    """A tool of an MCP server."""

    def __init__(self, server: McpServer, offer: Offer, name: str, terms: CallPolicy, rule: Rule) -> None:
        schema = _without(offer.schema, rule.key_argument)

        async def call(arguments: dict[str, Any], key: str) -> Any:
            if key and rule.key_argument is not None:
                arguments = {**arguments, rule.key_argument: key}
            meta = {rule.key_meta: key} if key and rule.key_meta is not None else None
            return _answer(await server.call(offer.name, arguments, meta, terms.longest_call_us))

        call.__name__ = call.__qualname__ = name
        call.__doc__ = whole(offer.description)
        super().__init__(call, name=name, terms=terms, signature=_Schemed(name, schema), schema=schema)

    def answer(self, value: Any) -> tuple[Any, bool]:
        failed = isinstance(value, dict) and _FAILED in value
        return (value[_FAILED], True) if failed else (value, False)


class _Schemed(Signature):
    """Arguments by a JSON schema, where there is no function to look at."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self.name = name
        self.key_parameter = None
        self._schema = schema
        self._checker: Any = None

    def for_callers(self) -> inspect.Signature:
        """Arguments by name. Which ones there are says the schema: not all of its names are names in Python."""
        return inspect.Signature(
            [inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD, annotation=Any)]
        )

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if args:
            msg = f"{self.name} takes its arguments by name"
            raise InvalidPayload(msg, hint=f"Its arguments are {', '.join(self._names()) or 'none'}.")
        given: dict[str, Any] = plain(dict(kwargs), f"an argument of {self.name}")
        self._check(given)
        return given

    def _check(self, given: dict[str, Any]) -> None:
        checker = self._compiled()
        try:
            # Half of a character would end the connection, and everybody's calls with it.
            msgspec.json.encode(given)
        except ValueError:
            msg = f"an argument of {self.name} contains an incomplete character (a lone surrogate)"
            raise InvalidPayload(msg, hint="Send valid Unicode text.") from None
        fault = next(iter(checker.iter_errors(given)), None)
        if fault is not None:
            at = "".join(f"[{one!r}]" for one in fault.instance_path)
            msg = f"the arguments of {self.name} do not fit{at}: {shorten(fault.message, 1_000)}"
            raise InvalidPayload(msg, hint=f"Its arguments are {', '.join(self._names()) or 'none'}.")

    def _compiled(self) -> Any:
        if self._checker is None:
            import jsonschema_rs

            try:
                self._checker = jsonschema_rs.validator_for(self._schema, retriever=_nothing_from_outside)
            except ValueError as error:
                msg = f"the server describes {self.name} in a way that cannot be read: {shorten(str(error), 500)}"
                raise InvalidSetting(
                    msg, hint="Leave the tool out with only=…, and report it to its author."
                ) from None
        return self._checker

    def _names(self) -> list[str]:
        named = self._schema.get("properties")
        return list(named) if isinstance(named, dict) else []

    def call_with(self, stored: Mapping[str, Any], key: str | None = None) -> Arguments:
        return Arguments((), {"arguments": dict(stored), "key": key or ""})

    def parameters(self) -> Iterator[Declared]:
        return iter(())

    def result(self, stored: Any) -> Any:
        if isinstance(stored, dict) and _FAILED in stored:
            raise CallFailed(stored[_FAILED], error_type="McpToolFailed")
        return stored


def _offer(tool: Any) -> Offer:
    hints = tool.annotations
    return Offer(
        tool.name,
        tool.input_schema,
        tool.description or tool.title or "",
        bool(hints and hints.read_only_hint),
        bool(hints and hints.idempotent_hint),
    )


def _without(schema: dict[str, Any], argument: str | None) -> dict[str, Any]:
    """The schema without the argument that is ours to give."""
    if argument is None:
        return schema
    less = dict(schema)
    if isinstance(less.get("properties"), dict):
        less["properties"] = {name: one for name, one in less["properties"].items() if name != argument}
    if isinstance(less.get("required"), list):
        less["required"] = [name for name in less["required"] if name != argument]
    return less


def _answer(result: Any) -> Any:
    """The answer as JSON: what is structured, else the text; the words of a failure under a mark."""
    text = shorten("\n".join(_text(block) for block in result.content), RESULT_TEXT_MAX)
    if result.is_error:
        return {_FAILED: whole(text)}
    structured = result.structured_content
    if structured is None:
        return whole(text)
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        structured = structured["result"]  # how a server wraps what is no object
    written = text_of(structured)
    return structured if len(written) <= RESULT_TEXT_MAX else shorten(written, RESULT_TEXT_MAX)


def _text(block: Any) -> str:
    """A block of content as text; of pictures and sounds, that they were there."""
    match block.type:
        case "text":
            return str(block.text)
        case "resource" if getattr(block.resource, "text", None) is not None:
            return str(block.resource.text)
        case "resource" | "resource_link":
            return f"[{block.type} {getattr(block, 'uri', None) or block.resource.uri}]"
        case other:
            return f"[{other} {getattr(block, 'mime_type', '')}]"


def _nothing_from_outside(address: str) -> Any:
    msg = f"{address} is not part of it"
    raise ValueError(msg)
