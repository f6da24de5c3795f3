"""Work for others: asked for inside a job, done by whoever has the capability, here or elsewhere."""

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
    """What came of the work, as JSON: asked for once, found again by a job that was resumed, cancelled with it.

    The job holds no slot meanwhile, however long it takes. CallFailed, if the work failed or was cancelled.
    """
    drive = context.drive("hf.delegate")
    asked = Work(
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
    return await children.spawn(drive, draft_of(asked, namespace=drive.owner.namespace))
