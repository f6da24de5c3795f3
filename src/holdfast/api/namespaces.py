"""Namespaces (tenants), and the counts of one."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.api.context import ApiContext
from holdfast.api.job_records import Stats
from holdfast.api.operation import Created, operation
from holdfast.api.requests import Name, OperationRequest
from holdfast.model.access import AccessScope
from holdfast.model.states import Status, WaitReason
from holdfast.store.ports.namespaces import NamespaceRecord

AGENTS_MAX: Final = 100_000
COUNTED: Final = (
    "agents",
    "pendingWork",
    "activeWork",
    "completedWork",
    "failedWork",
    "cancelledWork",
    "deadWork",
)


class NamespaceList(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[NamespaceRecord, ...]


class ListNamespaces(OperationRequest, frozen=True, kw_only=True):
    pass


@operation("GET", "/api/namespaces", scope=AccessScope.ADMIN, shared=True)
async def list_namespaces(api: ApiContext, _request: ListNamespaces) -> NamespaceList:
    """List namespaces by name."""
    return NamespaceList(items=tuple(await api.store.namespaces.list()))


class CreateNamespace(OperationRequest, frozen=True, kw_only=True):
    namespace: Name


@operation("POST", "/api/namespaces", scope=AccessScope.ADMIN, errors=(415, 422), shared=True)
async def create_namespace(api: ApiContext, request: CreateNamespace) -> Created[NamespaceRecord]:
    """Create a namespace. Repeating the request changes nothing."""
    existing = {record_row.namespace for record_row in await api.store.namespaces.list()}
    await api.store.namespaces.create(request.namespace)
    record = next(
        record_row
        for record_row in await api.store.namespaces.list()
        if record_row.namespace == request.namespace
    )
    return Created(record, request.namespace not in existing)


class GetStats(OperationRequest, frozen=True, kw_only=True):
    pass


@operation(
    "GET",
    "/api/stats",
    scope=AccessScope.READ,
    tool="Count jobs, work items and agents, in all and by project.",
)
async def get_stats(api: ApiContext, _request: GetStats) -> Stats:
    """Count jobs by status."""
    counts = await api.store.jobs.counts(api.namespace)
    jobs = {"jobs": sum(counts.values())} | {str(status): number for status, number in counts.items()}
    agents = (await api.registry.list(limit=AGENTS_MAX)).items
    projects: dict[str, dict[str, int]] = {}
    for agent in agents:
        project = projects.setdefault(agent.entry.project_id, dict.fromkeys(COUNTED, 0))
        project["agents"] += 1
    work = await api.store.work.counts(namespace=api.namespace)
    for (name, status, reason), number in work.items():
        projects.setdefault(name, dict.fromkeys(COUNTED, 0))[_counter(status, reason)] += number
    everything = {
        counter: sum(project_counts[counter] for project_counts in projects.values()) for counter in COUNTED
    }
    return Stats(totals=jobs | everything, by_project=projects)


def _counter(status: Status, reason: WaitReason | None) -> str:
    """The counter of a project for a work item in this state."""
    match status, reason:
        case Status.PENDING, _:
            return "pendingWork"
        case Status.WAITING, WaitReason.DEAD_LETTER:
            return "deadWork"
        case ((Status.RUNNING | Status.WAITING), _):
            return "activeWork"
        case _:
            return f"{status}Work"
