"""Lease renewal of a claimed work item, by a client of the server: at a third of the lease, for as long as it is
held.

Workers hold their jobs by one lease per worker (`engine.lease_renewal`). Work that is claimed over HTTP has its own
lease, by contract, and its claimer renews it with this loop: external agents (`external_work`) and the MCP server for
the model behind it (`server.mcp.lease_keeper`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.client.server_retry import ServerRetry
from holdfast.errors import Fenced, HoldfastError, NotFound, Unavailable

Report = Callable[[HoldfastError | None], None]
"""Called for each failed renewal: with the error by which the server rejected it, or None if it did not respond."""


async def renew_lease(
    work_id: str,
    renew: Callable[[], Awaitable[None]],
    wait_until_due: Callable[[], Awaitable[None]],
    *,
    retry: ServerRetry,
    within_s: float,
    report: Report = lambda _error: None,
) -> HoldfastError:
    """Renews until the work belongs to another holder, and returns the error that says so. A failed renewal is tried
    again after a while, whatever the reason: the lease may still be valid, and the end of the work can be reported."""
    failures = 0
    while True:
        if not failures:
            await wait_until_due()
        try:
            async with asyncio.timeout(within_s):
                await renew()
            failures = 0
        except (Fenced, NotFound) as error:
            return error
        except (HoldfastError, TimeoutError) as error:
            is_away = isinstance(error, Unavailable | TimeoutError)
            report(None if is_away or not isinstance(error, HoldfastError) else error)
            failures += 1
            await retry.wait(f"work {work_id} renewal", failures, error)
