"""Every rule speaks of metrics that exist, fires where we said, and leads to a page with a command that runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from holdfast import errors
from holdfast.model.events import Event
from holdfast.server.metrics.meter import Metrics
from holdfast.server.metrics.table import METRICS, Metric
from tests.operations.deployment.commands import lines_of, refusal
from tests.support.project import ROOT
from tools.check_docs import list_headings

ALERTS = ROOT / "deploy" / "alerts.yml"
RUNBOOK = ROOT / "docs" / "operating" / "runbook.md"
GROUPS: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]

_NAME = re.compile(r"\b(holdfast_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_BY_SCRAPE = {"instance", "job", "le"}


def metric_of(name: str) -> Metric | None:
    """The metric behind a series: a histogram has three kinds of them."""
    for one in METRICS:
        series = {f"{one.name}_{end}" for end in ("bucket", "sum", "count")}
        if name in (series if one.kind == "histogram" else {one.name}):
            return one
    return None


def by_name(rule: dict[str, Any]) -> str:
    return str(rule["alert"])


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_rule_speaks_of_what_is_measured(rule: dict[str, Any]) -> None:
    found = _NAME.findall(rule["expr"])
    assert found, "it looks at something of ours"
    labels: set[str] = set()
    for name, selector in found:
        metric = metric_of(name)
        assert metric is not None, f"there is no series {name}"
        labels |= set(metric.labels)
        for label, value in _LABEL.findall(selector):
            assert label in metric.labels, f"{name} has no label {label}"
            for one in value.split("|"):
                _must_exist(label, one)
    for names in _GROUPED.findall(rule["expr"]):
        assert {name.strip() for name in names.split(",")} <= labels | _BY_SCRAPE


@pytest.mark.parametrize("rule", [rule for rule in RULES if "increase(" in rule["expr"]], ids=by_name)
def test_an_alert_on_a_rare_event_sees_the_first_one(rule: dict[str, Any]) -> None:
    """Goal: the first event counts. Method: the series that `increase()` selects exist before there is any; one that
    appears with the value 1 has increased by 0."""
    exposition = Metrics().text().decode()
    for name, selector in re.findall(r"increase\((holdfast_\w+)(?:\{([^}]*)\})?\[", rule["expr"]):
        wanted = [
            f'{name}{{{label}="{value}"}} 0.0'
            for label, values in _LABEL.findall(selector)
            for value in values.split("|")
        ]
        metric = metric_of(name)
        if metric is not None and not metric.labels:
            wanted = [f"{name} 0.0"]
        assert [line for line in wanted if line not in exposition] == []


def _must_exist(label: str, value: str) -> None:
    if label == "code":
        assert value in CODES, f"no error has the code {value}"
    elif label == "type":
        assert value in TYPES, f"there is no event {value}"


CODES = {value.code for value in vars(errors).values() if isinstance(value, type) and hasattr(value, "code")}
TYPES = {kind.type for kind in Event.__subclasses__()}


def test_names_of_rules_are_their_own() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names)) > 30
    assert all(name.startswith("Holdfast") for name in names)
    assert {rule["labels"]["severity"] for rule in RULES} == {"info", "warning", "critical"}


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_rule_leads_to_its_page(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert ROOT / page == RUNBOOK
    assert anchor in list_headings(RUNBOOK), f"the runbook has no section {anchor}"
    assert rule["annotations"]["summary"].endswith(".")


def sections() -> dict[str, str]:
    """Section → its text."""
    parts = re.split(r"^## (.+)$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("title", [title for title in sections() if title != "Not monitored yet"])
def test_a_section_begins_with_a_command_that_the_command_line_takes(title: str) -> None:
    body = sections()[title]
    assert body.lstrip().startswith("```bash\nholdfast ")
    for arguments in lines_of(body):
        assert refusal(arguments) is None, f"holdfast {' '.join(arguments)}: {refusal(arguments)}"


def test_every_section_is_led_to() -> None:
    led = {rule["annotations"]["runbook"].partition("#")[2] for rule in RULES}
    written = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in sections()}
    assert written - led == {"not-monitored-yet"}


# What we said we would warn of, and when: alert → (severity, threshold, for).
SAID: dict[str, tuple[str, float, str | None]] = {
    "HoldfastCommitsSlow": ("warning", 0.05, "5m"),
    "HoldfastCommitsVerySlow": ("critical", 0.1, "5m"),
    "HoldfastSweepSlow": ("warning", 10, None),
    "HoldfastSweepVerySlow": ("critical", 60, None),
    "HoldfastLeasesExpire": ("warning", 0.1, "5m"),
    "HoldfastManyLeasesExpire": ("critical", 0.3, "5m"),
    "HoldfastLockTimeouts": ("critical", 1, None),
    "HoldfastCacheHitRateLow": ("info", 0.3, "1h"),
    "HoldfastJobsStalled": ("warning", 0, "5m"),
    "HoldfastUncertainCalls": ("warning", 0, "5m"),
    "HoldfastUncertainCallsOverdue": ("critical", 0, "60m"),
    "HoldfastFencedWrites": ("warning", 1, "5m"),
    "HoldfastManyFencedWrites": ("critical", 0.01, "5m"),
    "HoldfastQueueLatencyHigh": ("warning", 60, None),
    "HoldfastQueueLatencyVeryHigh": ("critical", 600, None),
    "HoldfastManyDeadLetters": ("critical", 0.01, None),
    "HoldfastJobCrashesWorkers": ("warning", 2, None),
    "HoldfastJobCrashLoop": ("critical", 3, None),
    "HoldfastWalLarge": ("warning", 64 * 2**20, "5m"),
    "HoldfastWalVeryLarge": ("critical", 512 * 2**20, "5m"),
    "HoldfastDiskLow": ("warning", 0.15, None),
    "HoldfastDiskFull": ("critical", 0.05, None),
    "HoldfastClockSkew": ("warning", 0.5, "5m"),
    "HoldfastClockSkewLarge": ("critical", 5, "5m"),
    "HoldfastBackupOld": ("warning", 26, None),
    "HoldfastBackupVeryOld": ("critical", 72, None),
    "HoldfastNatsDown": ("warning", 1, "1m"),
    "HoldfastNatsDownLong": ("critical", 1, "15m"),
    "HoldfastEventLoopDelayed": ("warning", 0.1, "5m"),
    "HoldfastEventLoopBlocked": ("critical", 1, "5m"),
}
_COMPARED = re.compile(r"(?:>=|>|<)\s*([\d.]+)(?!.*(?:>=|>|<))", re.DOTALL)


@pytest.mark.parametrize("name", SAID)
def test_a_threshold_is_what_we_said(name: str) -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == name]
    found = _COMPARED.search(rule["expr"])
    assert found, rule["expr"]
    assert (rule["labels"]["severity"], float(found[1]), rule.get("for")) == SAID[name]
