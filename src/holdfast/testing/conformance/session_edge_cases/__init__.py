"""Edge cases of sessions that the acceptance document leaves open and Holdfast decides: one small check for each."""

from __future__ import annotations

from typing import Final

from holdfast.testing.conformance.harness import Check, checks_in
from holdfast.testing.conformance.session_edge_cases import (
    attachments,
    claims,
    delivery,
    graphs,
    inbox,
    tokens,
    turns,
)

CORNERS: Final[tuple[Check, ...]] = checks_in(inbox, delivery, claims, tokens, turns, graphs, attachments)
