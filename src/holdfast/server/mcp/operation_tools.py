"""MCP tools that are operations (`holdfast.api`): those whose declaration has a text for models.

A tool has the fields of the request, without the ids that make a request repeatable: the client makes those. The
author of a command is an argument where a person decides, and this session otherwise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.operation import KEY_FIELDS, Operation
from holdfast.model.access import AccessScope
from holdfast.server.mcp.tools import Args, McpContext, ServerTool
from holdfast.server.operation_routes import operations


def operation_tools() -> list[ServerTool[Any]]:
    """The tools of all operations that are marked as such."""
    return [to_tool(operation) for operation in operations() if operation.tool]


def to_tool(operation: Operation[Any, Any]) -> ServerTool[Any]:
    """The operation as a tool."""
    names_person = operation.scope is AccessScope.DECIDE
    hidden = {*KEY_FIELDS, operation.waits, *(() if names_person else ("by",))}
    fields: list[Any] = []
    for field in msgspec.structs.fields(operation.request):
        if field.name in hidden:
            continue
        is_required = field.required or (names_person and field.name == "by")
        fields.append((field.name, field.type) if is_required else (field.name, field.type, field.default))
    args = msgspec.defstruct(
        operation.request.__name__,
        fields,
        bases=(Args,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    has_by = "by" in operation.request.__struct_fields__

    async def act(context: McpContext, arguments: Any) -> Any:
        values = {name: getattr(arguments, name) for name in args.__struct_fields__}
        if has_by and not names_person:
            values["by"] = context.caller
        return await context.client.call(operation, operation.request(**values))

    return ServerTool(
        name=operation.name, description=operation.tool, args=args, act=act, reads=operation.method == "GET"
    )
