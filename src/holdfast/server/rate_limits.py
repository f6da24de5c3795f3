"""Rate limits (S24): token buckets for one key, and for all keys of one namespace.

Requests, submissions and body bytes each have a bucket for the key and one for its namespace. The buckets are local
to this process: two servers admit twice as much. The limits of the queues protect the store.
"""

from __future__ import annotations

from holdfast.errors import Busy
from holdfast.model.time import SECOND
from holdfast.model.token_bucket import TokenBucket, take
from holdfast.server.origin_checks import Principal
from holdfast.server.router import Endpoint
from holdfast.server.settings import Rates, Settings
from holdfast.store.clock import Clock


class Meter:
    def __init__(self, clock: Clock, settings: Settings) -> None:
        self._clock = clock
        self._settings = settings
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}

    def admit(self, principal: Principal, endpoint: Endpoint) -> None:
        """Admits one request; raises Busy, with the time to wait."""
        self._take(principal, "requests", 1)
        if endpoint.submits:
            self._take(principal, "submissions", 1)
        if endpoint.body is not None:
            self._take(principal, "bytes", 0)

    def read(self, principal: Principal, size: int) -> None:
        """Counts the bytes of a body. If that exceeds the limit, the next request has to wait."""
        for owner, rates in self._owners(principal):
            place = ("bytes", *owner)
            self._buckets[place], _ = take(self._buckets.get(place), rates.bytes, self._clock.tick_us(), size)

    def _take(self, principal: Principal, resource: str, cost: int) -> None:
        now = self._clock.tick_us()
        for owner, rates in self._owners(principal):
            rate, place = getattr(rates, resource), (resource, *owner)
            self._buckets[place], wait_us = take(self._buckets.get(place), rate, now, cost)
            if wait_us:
                msg = (
                    f"the {owner[0]} has reached its limit of {resource}:"
                    f" {rate.per_s:,} per second, {rate.burst:,} burst"
                )
                raise Busy(
                    msg, retry_after_s=-(-wait_us // SECOND), hint="Retry after the time in Retry-After."
                )

    def _owners(self, principal: Principal) -> tuple[tuple[tuple[str, str], Rates], ...]:
        return (
            (("key", principal.key_id or principal.name), self._settings.per_key),
            (("namespace", principal.namespace), self._settings.per_namespace),
        )
