"""Cron expressions in a time zone: compute the next instant.

A change of clocks is handled as cron does it. A time of day that is skipped in spring fires at the end of the gap; one
that comes twice in autumn fires the first time. Expressions with a star (every hour, every ten minutes) follow elapsed
time, and so fire in both.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidSetting
from holdfast.model.schedule import After

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: Final = 5
_HINT: Final = (
    'Write five fields: minute, hour, day, month, weekday; "0 7 * * 1-5" is every working day at seven.'
)


@functools.lru_cache(maxsize=1024)
def compile_cron(cron: str, time_zone: str) -> After:
    """Returns a function that computes the first instant of this expression after another one.

    Raises:
        InvalidSetting: The expression or the zone is invalid, or the expression never fires.
    """
    # Imported only where there is a schedule.
    from cronsim import CronSim, CronSimError

    zone = _load_zone(time_zone)
    if len(cron.split()) != _FIELDS:
        msg = f"{cron!r} is not a cron expression: it has {len(cron.split())} fields"
        raise InvalidSetting(msg, hint=_HINT)

    def next_after(instant: int) -> int:
        start = (_EPOCH + timedelta(microseconds=instant)).astimezone(zone)
        try:
            for moment in CronSim(cron, start):
                us = (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
                # In the hour that comes twice, a time of day may mean its first occurrence, which is over.
                if us > instant:
                    return us
        except CronSimError as error:
            msg = f"{cron!r} is not a cron expression: {error}"
            raise InvalidSetting(msg, hint=_HINT) from None
        except OverflowError:
            pass
        msg = f"{cron!r} never fires"
        raise InvalidSetting(msg, hint=_HINT)

    return next_after


def _load_zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = f"there is no time zone {name!r} on this machine"
        raise InvalidSetting(
            msg, hint="Write a name such as Europe/Berlin or UTC; `pip install tzdata` brings all of them."
        ) from None
