"""The kit: ledger, checkpoints, leases, sweep and cache as blocking calls, for programs with their own loop."""

from __future__ import annotations

from holdfast.errors import EvidenceFails
from holdfast.kit.blocking_portal import Database, get_db
from holdfast.kit.cache import LLMOutputCache
from holdfast.kit.checkpoint_index import Checkpoint
from holdfast.kit.checkpoints import CHECKPOINT_TYPES, CheckpointManager
from holdfast.kit.evidence import (
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    VerificationStatus,
)
from holdfast.kit.heartbeat import HeartbeatThread
from holdfast.kit.leases import (
    LeaseConflictError,
    LeaseError,
    LeaseExpiredError,
    LeaseManager,
    LeaseStatus,
    WorkItem,
)
from holdfast.kit.ledger import ToolLedger
from holdfast.kit.sweep import RecoveryStats, RecoverySweep

EvidenceVerificationError = EvidenceFails

__all__ = [
    "CHECKPOINT_TYPES",
    "Checkpoint",
    "CheckpointManager",
    "Database",
    "Evidence",
    "EvidencePack",
    "EvidenceType",
    "EvidenceVerificationError",
    "EvidenceVerifier",
    "HeartbeatThread",
    "LLMOutputCache",
    "LeaseConflictError",
    "LeaseError",
    "LeaseExpiredError",
    "LeaseManager",
    "LeaseStatus",
    "RecoveryStats",
    "RecoverySweep",
    "ToolLedger",
    "VerificationStatus",
    "WorkItem",
    "get_db",
]
