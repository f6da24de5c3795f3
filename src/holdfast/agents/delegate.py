"""`hf.delegate`: a job submits a work item, and an agent with the capability does it, hosted or external."""

from __future__ import annotations

from typing import Any

from holdfast.agents import context
from holdfast.engine import children
from holdfast.model.agent_registry import DEFAULT_PROJECT
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.work import Work, draft_of


async def delegate(
    description: str,
    *,
    capability: str,
    context_data: Any = None,
    boundary: str = "",
    priority: int = PRIORITY_DEFAULT,
    deadline: str | None = None,
    preferred_agent_type: str = "",
    required_agent_type: str = "",
    project_id: str = DEFAULT_PROJECT,
) -> Any:
    """Submits a work item and returns its result as JSON. It is submitted once: a resumed job finds it again, and a
    cancelled job cancels it.

    The job holds no slot while it waits. Raises CallFailed if the work failed or was cancelled.
    """
    execution = context.drive("hf.delegate")
    work = Work(
        description=description,
        capability=capability,
        boundary=boundary,
        priority=priority,
        deadline=deadline,
        preferred_agent_type=preferred_agent_type,
        required_agent_type=required_agent_type,
        project_id=project_id,
        context_data=context_data,
    )
    return await children.spawn(execution, draft_of(work, namespace=execution.owner.namespace))
