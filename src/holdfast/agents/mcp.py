"""Tools of MCP servers, called as durably as an application's own.

    files = hf.mcp("files", ["npx", "server-files", "data"])                  # a program, over its stdin and stdout
    github = hf.mcp("github", url="https://mcp.example.com/mcp",              # or a server, over HTTP
                    headers={"Authorization": …}, policy=hf.Policy.read("tools.toml"))

    @hf.agent
    async def helper(question: str) -> str:
        tools = [lookup, *await files.tools(), *await github.tools()]
        …

A server is declared once, beside the agents. Each process that runs a job connects to it when the job first needs it.
The list of its tools is recorded in the job, so that a resumed job has the tools it began with.

The effect class of a call comes from the declarations, the policy before the server: a rule's class; else
`read_only`, if the server declares it; else `idempotent`, if the server declares it *and* a rule says where the key
goes; else `unsafe`. `trust_hints=False` ignores the hints of a server that is not trusted.

The outcome of a call: the server's response is its result, including an error that the tool reports. A server that
cannot be reached, or that does not know the tool or its arguments, has done nothing (`Refused`). Any other outcome
(the server died, hangs, or reports "internal error") is unknown, and recovered by the class.
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
"""The JSON-RPC codes for parse error, method not found and invalid params: a server returns them before it calls a
tool."""

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
    """Declares an MCP server under a name of your choice; its tools are called `name.tool`. It is not started yet.

    command: a program that speaks MCP on its stdin and stdout; it sees a few harmless environment variables, and
    `env`. url: instead, a server that speaks MCP over HTTP (streamable HTTP). policy: rules for tools by their full
    name. only: the tools that agents see, by the server's own names; patterns as in a shell. timeout: how long one
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
    """An MCP server and the call policies of its tools. Made by `hf.mcp`."""

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
        """The tools that the server offers. Inside a job the list is recorded: a resumed job gets the same list."""
        return [self._tool(offer) for offer in await self._listing()]

    async def close(self) -> None:
        """Closes the connection of this event loop; a program that it started has ended."""
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
        """Calls the tool; returns the server's response."""
        client = await self._client()
        from mcp import MCPError  # imported by now: the client needs it

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
                _offer(listed)
                for listed in page.tools
                if any(fnmatchcase(listed.name, word) for word in self._only)
            ]
            cursor = page.next_cursor
            if not cursor:
                return offers
        msg = f"the MCP server {self.name} lists tools without end"
        raise InvalidPayload(msg, hint="Ask the operator of that server.")

    async def _client(self) -> Any:
        """The client of this event loop. A client that has lost its server is replaced before the request is sent."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None or connection.is_over:
            connection = self._connections[loop] = McpConnection(self._target)
        return await connection.client()

    def _tool(self, offer: Offer) -> McpTool:
        name = f"{self.name}.{offer.name}"
        matching = self._policy.find_rule(name)
        rule = matching or Rule(pattern=name)
        terms = CallPolicy(effect=self._effect(offer, rule), longest_call_us=self._longest_us)
        return McpTool(self, offer, name, self._policy.apply_rule(matching, rule.terms(terms)), rule)

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
    """Arguments checked by a JSON schema, for a tool without a Python function."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self.name = name
        self.key_parameter = None
        self._schema = schema
        self._checker: Any = None

    def for_callers(self) -> inspect.Signature:
        """Arguments by name. The schema lists them: not all of its names are valid in Python."""
        return inspect.Signature(
            [inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD, annotation=Any)]
        )

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if args:
            msg = f"{self.name} takes its arguments by name"
            raise InvalidPayload(msg, hint=f"Its arguments are {', '.join(self._names()) or 'none'}.")
        arguments: dict[str, Any] = plain(dict(kwargs), f"an argument of {self.name}")
        self._check(arguments)
        return arguments

    def _check(self, arguments: dict[str, Any]) -> None:
        checker = self._compiled()
        try:
            # A lone surrogate would end the connection, and all other calls on it.
            msgspec.json.encode(arguments)
        except ValueError:
            msg = f"an argument of {self.name} contains an incomplete character (a lone surrogate)"
            raise InvalidPayload(msg, hint="Send valid Unicode text.") from None
        fault = next(iter(checker.iter_errors(arguments)), None)
        if fault is not None:
            at = "".join(f"[{part!r}]" for part in fault.instance_path)
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
        properties = self._schema.get("properties")
        return list(properties) if isinstance(properties, dict) else []

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
    """The schema without the argument that carries our key."""
    if argument is None:
        return schema
    less = dict(schema)
    if isinstance(less.get("properties"), dict):
        less["properties"] = {
            name: property_schema for name, property_schema in less["properties"].items() if name != argument
        }
    if isinstance(less.get("required"), list):
        less["required"] = [name for name in less["required"] if name != argument]
    return less


def _answer(result: Any) -> Any:
    """The response as JSON: its structured content, else its text; the text of a failure under a mark."""
    text = shorten("\n".join(_text(block) for block in result.content), RESULT_TEXT_MAX)
    if result.is_error:
        return {_FAILED: whole(text)}
    structured = result.structured_content
    if structured is None:
        return whole(text)
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        structured = structured["result"]  # servers wrap a result that is not an object like this
    encoded = text_of(structured)
    return structured if len(encoded) <= RESULT_TEXT_MAX else shorten(encoded, RESULT_TEXT_MAX)


def _text(block: Any) -> str:
    """A content block as text; for images and audio, a placeholder."""
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
