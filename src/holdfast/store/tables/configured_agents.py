"""Configured agents over SQL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import Conflict, NotFound, StoreCorrupt
from holdfast.model import canonical
from holdfast.model.configured_agents import Configuration, HostedAgent, check_agent
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.payloads import need_namespace, read_json


class SqlAgents:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def create(self, agent: HostedAgent) -> HostedAgent:
        agent = check_agent(agent)
        encoded = canonical.encode(msgspec.to_builtins(agent.configuration))

        async def work(tx: Transaction) -> HostedAgent:
            await need_namespace(tx, agent.namespace)
            await tx.row(
                "insert_agent",
                namespace=agent.namespace,
                agent_id=agent.agent_id,
                name=agent.name,
                kind=agent.kind,
                configuration=encoded,
            )
            row = await tx.row("find_agent", namespace=agent.namespace, name=agent.name)
            found = None if row is None else _to_agent(row)
            if found is None or (found.kind, found.configuration) != (agent.kind, agent.configuration):
                taken = f"id {agent.agent_id!r}" if found is None else f"name {agent.name!r}"
                msg = f"the {taken} belongs to another agent"
                raise Conflict(msg, hint="Give the new agent a name of its own.")
            return found

        return await self._executor.write(work)

    async def get(self, agent_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_agent", namespace=namespace, agent_id=agent_id)

        row = await self._executor.read(work, brief=True)
        if row is None:
            msg = f"there is no agent {agent_id!r}"
            raise NotFound(msg, hint="`holdfast agent list` lists them.")
        return _to_agent(row)

    async def find(self, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("find_agent", namespace=namespace, name=name)

        row = await self._executor.read(work, brief=True)
        return None if row is None else _to_agent(row)

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[HostedAgent]:
        after = "" if cursor is None else str(decode_cursor("agents", cursor, keys=1)[0])

        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_agents", namespace=namespace, after=after, limit=limit + 1)

        found = [_to_agent(row) for row in await self._executor.read(work)]
        more = encode_cursor("agents", found[limit - 1].name) if len(found) > limit > 0 else None
        return Page(tuple(found[:limit]), more)


def _to_agent(row: Row) -> HostedAgent:
    agent_id, name, kind, encoded, namespace, created_at = row
    try:
        configuration = msgspec.convert(read_json(encoded, f"agent {agent_id}"), Configuration)
    except msgspec.ValidationError as error:
        msg = f"the configuration of agent {agent_id} is damaged: {error}"
        raise StoreCorrupt(msg) from error
    return HostedAgent(
        agent_id=agent_id,
        name=name,
        kind=kind,
        configuration=configuration,
        namespace=namespace,
        created_at=created_at,
    )
