"""Figures in the documentation are those of the code.

Each row names a page, a phrase of it with the figure in parentheses, and the constant that it quotes. A change of the
constant changes the page, too, and a change of the phrase the row. Line breaks of the page count as spaces.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from holdfast.agents.assistant import CONTEXT_TOKENS_MAX
from holdfast.agents.attachments import BYTES_MAX as ATTACHMENT_BYTES_MAX
from holdfast.agents.models.provider_limits import SHUT_AFTER
from holdfast.agents.tool_calls import ANSWER_BYTES_MAX
from holdfast.api.work import WAIT_S_MAX
from holdfast.client.external_agent import GRACE_S
from holdfast.engine.model_requests import AWAKE_US
from holdfast.engine.stall_detector import HOLD_AFTER_S
from holdfast.engine.tracebacks import BYTES_MAX, FRAMES_MAX
from holdfast.kit.checkpoints import KEPT_MAX
from holdfast.model.agent_registry import ENTRY_BYTES_MAX
from holdfast.model.crash_suspects import DEATHS_PER_DAY, KILLS_ALONE_MAX, SUSPECT_AT
from holdfast.model.lease import (
    FAILED_ATTEMPTS_MAX,
    LEASE_TTL_US,
    RENEW_EVERY_US,
    STOP_AHEAD_US,
    TAKEOVERS_MAX,
)
from holdfast.model.limits import (
    ATTEMPTS_DEFAULT,
    BODY_BYTES_MAX,
    HEADER_BYTES_MAX,
    JSON_BYTES_MAX,
    KIB,
    MIB,
    PLAN_NODES_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
    RESULT_BYTES_MAX,
    RESULT_DEPTH_MAX,
    ROWS_PER_PAGE_MAX,
    STREAMS_PER_KEY_MAX,
)
from holdfast.model.redaction import VALUE_LENGTH_MIN
from holdfast.model.retention import RetentionPolicy
from holdfast.model.side_effects import KEY_LIFETIME_USED_PERCENT, QUIET_MARGIN_US
from holdfast.model.time import DAY, MILLISECOND, SECOND
from holdfast.model.work import LEASE_US as WORK_LEASE_US
from holdfast.model.work import PREFERENCE_US
from holdfast.model.worker_presence import BEAT_US, LOST_US
from holdfast.registry.connection import SLOWLY, SOON
from holdfast.registry.nats import RELIST_US
from holdfast.runtime.isolation import ROOM
from holdfast.server.access import BELIEVED_US
from holdfast.server.mcp.summaries import CHARACTERS_MAX
from holdfast.server.metrics.gauges import LOOK_EVERY_US, QUEUES_MAX
from holdfast.server.metrics.meter import NAMES_MAX
from holdfast.server.nats_bridge import ANSWER_S, AT_ONCE_MAX
from holdfast.server.page_schemas import BULK_MAX
from holdfast.server.settings import DEFAULT_PORT, TOGETHER, Rates, Settings
from holdfast.store.postgres.open import CONNECTIONS_MAX
from holdfast.store.sqlite.connection import WAL_BYTES_KEPT
from holdfast.worker.maintenance import ROUND_S, SWEEP_EVERY_US
from holdfast.worker.watchdog import BLOCKING_LIMIT_S, ROUNDS_PER_LEASE
from holdfast.worker.worker import DRAIN_S, POLL_S
from tests.support.project import ROOT

WORDS = dict(enumerate("zero one two three four five six seven eight nine ten eleven twelve".split()))
FRACTIONS = {3: "third", 6: "sixth", 12: "twelfth"}
LEASE_S = LEASE_TTL_US // SECOND
PER_KEY = Rates()


class Quote(NamedTuple):
    page: str
    phrase: str
    value: object


QUOTES = [
    Quote("access.md", r"By default ([\d,]+) requests", f"{PER_KEY.requests.per_s:,}"),
    Quote("access.md", r"([\d,]+) submissions and", f"{PER_KEY.submissions.per_s:,}"),
    Quote("access.md", r"(\d+) MiB a second", PER_KEY.bytes.per_s // MIB),
    Quote(
        "access.md",
        r"(\w+) times that for a namespace",
        WORDS[TOGETHER.requests.per_s // PER_KEY.requests.per_s],
    ),
    Quote("access.md", r"\(bursts: ([\d,]+),", f"{PER_KEY.requests.burst:,}"),
    Quote("access.md", r"and (\d+) MiB\), and four", PER_KEY.bytes.burst // MIB),
    Quote("access.md", r"at most (\d+) open streams", STREAMS_PER_KEY_MAX),
    Quote("access.md", r"A body has at most (\d+) MiB", BODY_BYTES_MAX // MIB),
    Quote("access.md", r"headers (\d+) KiB", HEADER_BYTES_MAX // KIB),
    Quote("access.md", r"a page ([\d,]+) rows", f"{ROWS_PER_PAGE_MAX:,}"),
    Quote("api.md", r"at most (\d+) jobs \(`ids`\)", BULK_MAX),
    Quote("api.md", r"a body beyond (\d+) MiB", BODY_BYTES_MAX // MIB),
    Quote("api.md", r"headers beyond (\d+) KiB", HEADER_BYTES_MAX // KIB),
    Quote("glossary.md", r"or (\w+) times within a day", WORDS[DEATHS_PER_DAY]),
    Quote("glossary.md", r"After (\w+) failures in a row", WORDS[SHUT_AFTER]),
    Quote("guarantees.md", r"After (\w+) deaths without progress", WORDS[SUSPECT_AT]),
    Quote("guarantees.md", r"\(or (\w+) within a day\)", WORDS[DEATHS_PER_DAY]),
    Quote("guarantees.md", r"every (\w+) of a lease", FRACTIONS[ROUNDS_PER_LEASE]),
    Quote("guarantees.md", r"(\d+) minutes, `HOLDFAST_BLOCKING_LIMIT`", int(BLOCKING_LIMIT_S) // 60),
    Quote("guarantees.md", r"caches a key for (\w+) seconds", WORDS[BELIEVED_US // SECOND]),
    Quote("guarantees.md", r"after (\w+) missed heartbeats", WORDS[LOST_US // BEAT_US]),
    Quote("guarantees.md", r"one call of the store in (\w+) seconds", WORDS[BEAT_US // SECOND]),
    Quote("guarantees.md", r"A wait beyond (\w+) seconds suspends", WORDS[AWAKE_US // SECOND]),
    Quote("guarantees.md", r"preferred type yields after (\w+) seconds", WORDS[PREFERENCE_US // SECOND]),
    Quote("guarantees.md", r"fewer than (\d+) characters", VALUE_LENGTH_MIN),
    Quote(
        "guarantees.md",
        r"\((\d+) days by default\)",
        RetentionPolicy(older_than_us=0).keys_live_us // DAY,
    ),
    Quote("kit.md", r"the last (\d+) checkpoints", KEPT_MAX),
    Quote("models.md", r"a wait beyond (\w+) seconds", WORDS[AWAKE_US // SECOND]),
    Quote("models.md", r"(\w+) failures in a row", WORDS[SHUT_AFTER]),
    Quote("operating/README.md", r"for up to (\d+) s", int(DRAIN_S)),
    Quote("operating/README.md", r"begun within (\d+) s", int(Settings().drain_timeout_s)),
    Quote("operating/README.md", r"of another host after (\d+) s", LEASE_S),
    Quote("operating/configuration.md", r"`HOLDFAST_LEASE_TTL` \| `(\w+)`", f"{LEASE_S}s"),
    Quote(
        "operating/configuration.md",
        r"`HOLDFAST_BLOCKING_LIMIT` \| `(\w+)`",
        f"{int(BLOCKING_LIMIT_S) // 60}m",
    ),
    Quote("operating/configuration.md", r"`--port` \| `(\d+)`", DEFAULT_PORT),
    Quote("operating/configuration.md", r"(\d+) KiB of headers", HEADER_BYTES_MAX // KIB),
    Quote("operating/configuration.md", r"(\d+) s for a body", int(Settings().body_timeout_s)),
    Quote("operating/configuration.md", r"renewed every (\w+)", FRACTIONS[LEASE_TTL_US // RENEW_EVERY_US]),
    Quote("operating/configuration.md", r"in their last (\w+)", FRACTIONS[LEASE_TTL_US // STOP_AHEAD_US]),
    Quote("operating/configuration.md", r"a sweep every (\d+) s", SWEEP_EVERY_US // SECOND),
    Quote("operating/configuration.md", r"(\d+) s to drain", int(DRAIN_S)),
    Quote("operating/configuration.md", r"held after (\w+) minutes", WORDS[int(HOLD_AFTER_S) // 60]),
    Quote("operating/metrics.md", r"after (\d+) tools", NAMES_MAX),
    Quote("operating/metrics.md", r"and (\d+) queues", QUEUES_MAX),
    Quote("operating/metrics.md", r"at most every (\w+) seconds", WORDS[LOOK_EVERY_US // SECOND]),
    Quote("operating/nats.md", r"answers up to (\d+) requests", AT_ONCE_MAX),
    Quote("operating/nats.md", r"each within (\d+) s", int(ANSWER_S)),
    Quote("operating/nats.md", r"(\d+) KiB a value", ENTRY_BYTES_MAX // KIB),
    Quote("operating/nats.md", r"after ([\d.]+) s, then", SOON.base_us / MILLISECOND / 1000),
    Quote("operating/nats.md", r"then up to every (\d+) s", SOON.cap_us // SECOND),
    Quote("operating/nats.md", r"tried up to every (\d+) s", SLOWLY.cap_us // SECOND),
    Quote("operating/nats.md", r"also every (\d+) s", RELIST_US // SECOND),
    Quote("operating/runbook.md", r"could not renew for (\d+) s", LEASE_S),
    Quote(
        "operating/runbook.md",
        r"after (\w+) minutes \(`HOLDFAST_BLOCKING",
        WORDS[int(BLOCKING_LIMIT_S) // 60],
    ),
    Quote("operating/runbook.md", r"worker sweeps every (\d+) s", SWEEP_EVERY_US // SECOND),
    Quote("operating/runbook.md", r"API server every (\d+) s", int(ROUND_S)),
    Quote("operating/runbook.md", r"up to (\w+) at a time per worker", WORDS[ROOM]),
    Quote("operating/runbook.md", r"is tried (\w+) times", WORDS[KILLS_ALONE_MAX]),
    Quote("operating/runbook.md", r"dead letter after (\w+) lost leases", WORDS[TAKEOVERS_MAX]),
    Quote("operating/runbook.md", r"shrinks to (\d+) MiB", WAL_BYTES_KEPT // MIB),
    Quote("operating/scale.md", r"worker opens up to (\d+)", CONNECTIONS_MAX),
    Quote("operating/scale.md", r"workers also poll every ([\d.]+) s", POLL_S),
    Quote("external-agents.md", r"`priority` (\d+ to \d+)", f"{PRIORITY_MIN} to {PRIORITY_MAX}"),
    Quote("external-agents.md", r"(\w+) attempts in all", WORDS[FAILED_ATTEMPTS_MAX]),
    Quote("external-agents.md", r"after (\w+) failed attempts", WORDS[FAILED_ATTEMPTS_MAX]),
    Quote("external-agents.md", r"or (\w+) lost leases", WORDS[TAKEOVERS_MAX]),
    Quote("external-agents.md", r"long polling, up to (\d+)", WAIT_S_MAX),
    Quote("external-agents.md", r"(\d+) if omitted", WORK_LEASE_US // SECOND),
    Quote("external-agents.md", r"`grace_s` \((\d+) s\)", int(GRACE_S)),
    Quote("external-agents.md", r"at most ([\d,]+) characters", f"{CHARACTERS_MAX:,}"),
    Quote("plans.md", r"more than ([\d,]+) nodes", f"{PLAN_NODES_MAX:,}"),
    Quote("schedules.md", r"check every (\w+) seconds", WORDS[int(ROUND_S)]),
    Quote("sessions.md", r"of at most (\d+) MiB", ATTACHMENT_BYTES_MAX // MIB),
    Quote("sessions.md", r"tokens \(([\d,]+) by default\)", f"{CONTEXT_TOKENS_MAX:,}"),
    Quote("tools.md", r"for (\d+) % of `key_lifetime`", KEY_LIFETIME_USED_PERCENT),
    Quote("tools.md", r"`receiver_delay` and (\d+) s\)", QUIET_MARGIN_US // SECOND),
    Quote("tools.md", r"nested deeper than (\d+) levels", RESULT_DEPTH_MAX),
    Quote("tools.md", r"less (\d+) KiB for the event", (JSON_BYTES_MAX - RESULT_BYTES_MAX) // KIB),
    Quote("tools.md", r"(\w+) times by default", WORDS[ATTEMPTS_DEFAULT]),
    Quote("tools.md", r"more than (\d+) MiB", JSON_BYTES_MAX // MIB),
    Quote("tools.md", r"your frames \(at most (\d+) and", FRAMES_MAX),
    Quote("tools.md", r"your frames \(at most \d+ and (\d+) KiB", BYTES_MAX // KIB),
    Quote("tools.md", r"A result above (\d+) kB", ANSWER_BYTES_MAX // 1000),
]


def find_figures(text: str, phrase: str) -> set[str]:
    """What stands in the place of the figure, everywhere where the phrase is."""
    return set(re.findall(phrase.replace(" ", r"\s+"), text))


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: f"{quote.page}: {quote.phrase}")
def test_a_page_quotes_the_code(quote: Quote) -> None:
    figures = find_figures((ROOT / "docs" / quote.page).read_text(encoding="utf-8"), quote.phrase)
    assert figures, f"docs/{quote.page} no longer says {quote.phrase!r}: change the row of QUOTES"
    assert figures == {str(quote.value)}, (
        f"docs/{quote.page} and the code differ: the code says {quote.value}"
    )


def test_a_figure_that_differs_is_found() -> None:
    text = "leases last 30 s;\nothers wait for up\nto 45 s, or for up to 30 s"
    assert find_figures(text, r"for up to (\d+) s") == {"45", "30"}
