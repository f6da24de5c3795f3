"""`verify` finds what is wrong: damage is planted row by row, past every constraint, and must be named."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from holdfast.engine.verify.verify import verify
from holdfast.store.postgres.executor import PostgresExecutor
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.tables.store import SqlStore
from tests.support.fixtures.populated import populate
from tests.support.fixtures.stores import PostgresBackend, SqliteBackend

SQL_STORES = ("sqlite", "postgres")


class Planted(NamedTuple):
    name: str
    statement: str
    invariant: str


PLANTED = (
    Planted("an account that does not add up", "UPDATE budgets SET tool_calls = 7", "I8"),
    Planted("an account of nothing", "DELETE FROM budgets", "I8"),
    Planted(
        "a limit that nobody raised",
        'UPDATE budgets SET limits = CAST(\'{"tool_calls":41,"usd_micros":2000000}\' AS {bytes})',
        "I8",
    ),
    Planted(
        "limits that nobody can read",
        "UPDATE budgets SET limits = CAST('{\"luck\":true}' AS {bytes})",
        "I8",
    ),
    Planted("an act removed", "DELETE FROM audit_acts WHERE seq = 2", "I6"),
    Planted("the last act removed", "DELETE FROM audit_acts WHERE seq = 3", "I6"),
    Planted("an act changed", "UPDATE audit_acts SET what = 'job.look' WHERE seq = 2", "I6"),
    Planted(
        "an act by somebody else",
        "UPDATE audit_acts SET body = (SELECT o.body FROM audit_acts o WHERE o.seq = 1) WHERE seq = 2",
        "I6",
    ),
    Planted("an act of another time", "UPDATE audit_acts SET at = at + 1 WHERE seq = 3", "I6"),
    Planted("the end of the log forgotten", "DELETE FROM audit_heads", "I6"),
    Planted("an event removed", "DELETE FROM events WHERE job_id = 'job-done' AND seq = 3", "I5"),
    Planted(
        "an event nobody owns",
        "UPDATE events SET job_id = 'ghost' WHERE job_id = 'job-done' AND seq = 4",
        "I5",
    ),
    Planted("the head moved back", "UPDATE job_heads SET head_seq = 2 WHERE job_id = 'job-done'", "I5"),
    Planted(
        "the head's hash changed",
        "UPDATE job_heads SET head_hash = jobs.request_digest FROM jobs "
        "WHERE jobs.job_id = job_heads.job_id AND job_heads.job_id = 'job-done'",
        "I6",
    ),
    Planted(
        "a body changed",
        'UPDATE events SET body = CAST(\'{"worker":"eve"}\' AS {bytes}) '
        "WHERE job_id = 'job-open' AND seq = 2",
        "I6",
    ),
    Planted(
        "a body erased by hand",
        "UPDATE events SET body = CAST('' AS {bytes}) WHERE job_id = 'job-done' AND seq = 4",
        "I6",
    ),
    Planted(
        "an erased job that is not over",
        "UPDATE events SET body = CAST('' AS {bytes}) WHERE job_id = 'job-open' AND seq = 2",
        "I6",
    ),
    Planted(
        "words of a removed job",
        "INSERT INTO stream_passages SELECT 'ghost', 1, 1, 1, '[]', 0, request_digest FROM jobs "
        "WHERE job_id = 'job-done'",
        "I5",
    ),
    Planted(
        "words under a fence that nobody has reached",
        "INSERT INTO stream_passages SELECT job_id, fence + 1, 1, 1, '[]', 0, head_hash FROM job_heads "
        "WHERE job_id = 'job-done'",
        "I1",
    ),
    Planted(
        "a tombstone of one that is there",
        "INSERT INTO tombstones SELECT job_id, namespace, kind, 'completed', 1, request_digest, 0, 0, 0, 'remove', "
        "NULL, request_digest FROM jobs WHERE job_id = 'job-done'",
        "I5",
    ),
    Planted("a time changed", "UPDATE events SET at = at + 1 WHERE job_id = 'job-open' AND seq = 3", "I6"),
    Planted(
        "a fence changed", "UPDATE events SET fence = fence - 1 WHERE job_id = 'job-open' AND seq = 3", "I6"
    ),
    Planted("a fence from the future", "UPDATE job_heads SET fence = 7 WHERE job_id = 'job-open'", "I1"),
    Planted(
        "an epoch from the future", "UPDATE job_heads SET fence = fence * 3 WHERE job_id = 'job-done'", "I37"
    ),
    Planted("a status of its own", "UPDATE job_heads SET status = 'failed' WHERE job_id = 'job-done'", "I8"),
    Planted(
        "a finished job run again", "UPDATE job_heads SET status = 'pending' WHERE job_id = 'job-done'", "I8"
    ),
    Planted("a timer of a job that is over", "INSERT INTO timers VALUES ('job-done', 'late', 5)", "I27"),
    Planted("a letter lost", "DELETE FROM mail WHERE job_id = 'job-open'", "I29"),
    Planted("nobody in front", "UPDATE job_heads SET session_slot = NULL WHERE job_id = 'job-turn'", "I29"),
    Planted("two live jobs", "UPDATE job_heads SET session_slot = 'live' WHERE job_id = 'job-behind'", "I29"),
    Planted("another namespace", "UPDATE job_heads SET namespace = 'other' WHERE job_id = 'job-done'", "I34"),
    Planted("a batch lost", "DELETE FROM inbox_batches WHERE batch_id = 'b1'", "I19"),
    Planted(
        "a settled batch with content",
        "INSERT INTO inbox_items SELECT namespace, session_id, 'b1', 0, kind, body, "
        "body_digest FROM inbox_items WHERE batch_id = 'b2'",
        "I19",
    ),
    Planted("half a claim", "UPDATE inbox_batches SET claim_token = 'x' WHERE batch_id = 'b2'", "I4"),
    Planted("a turn lost", "DELETE FROM turns WHERE turn_id = 'turn-1'", "I20"),
    Planted("a turn beyond the head", "UPDATE turns SET revision = 9", "I21"),
    Planted("a checkpoint changed", "UPDATE sessions SET checkpoint = CAST('{}' AS {bytes})", "I22"),
    Planted("a parent lost", "UPDATE session_nodes SET parent_node_id = 'gone' WHERE node_id = 'n2'", "I23"),
    Planted("a circle", "UPDATE session_nodes SET parent_node_id = 'n2' WHERE node_id = 'n1'", "I23"),
    Planted("a leaf that is not there", "UPDATE sessions SET leaf_node_id = 'gone'", "I23"),
    Planted("blobs lost", "DELETE FROM blobs", "I33"),
    Planted("a blob changed", "UPDATE blobs SET body = CAST('other' AS {bytes})", "I33"),
    Planted("a call that never was", "UPDATE tool_calls SET status = 'prepared'", "I8"),
    Planted("a key changed", "UPDATE tool_calls SET idempotency_key = 'hf_other'", "I8"),
    Planted("a call forgotten", "DELETE FROM tool_calls", "I8"),
    Planted("one try more", "UPDATE tool_calls SET attempt = 2", "I8"),
    Planted("a result elsewhere", "UPDATE tool_calls SET result_seq = 2", "I8"),
    Planted(
        "a call nobody made",
        "INSERT INTO tool_calls SELECT 'call-2', job_id, step_key, 1, tool_name, raw_tool_name, side_effect_class, "
        "status, 'hf_forged', args_digest, attempt, fence, intent_seq, result_seq, start_by, longest_call_us, "
        "approval_id, prepared_at, settled_at FROM tool_calls",
        "I8",
    ),
    Planted("a timer lost", "DELETE FROM timers", "I8"),
    Planted("a timer moved", "UPDATE timers SET due_at = due_at + 1", "I8"),
    Planted("a timer nobody set", "INSERT INTO timers VALUES ('job-open', 'early', 5)", "I8"),
    Planted("another hour", "UPDATE job_heads SET wake_at = wake_at + 1 WHERE job_id = 'job-waiting'", "I8"),
    Planted("another queue", "UPDATE job_heads SET queue = 'fast' WHERE job_id = 'job-open'", "I8"),
    Planted("another fence", "UPDATE job_heads SET fence = fence + 1 WHERE job_id = 'job-done'", "I8"),
    Planted("takeovers of nobody", "UPDATE job_heads SET takeovers = 2 WHERE job_id = 'job-open'", "I8"),
    Planted("failures of nobody", "UPDATE job_heads SET attempts = 2 WHERE job_id = 'job-open'", "I26"),
    Planted(
        "a lease of one who waits",
        "UPDATE job_heads SET lease_token = 'x' WHERE job_id = 'job-waiting'",
        "I29",
    ),
    Planted(
        "one who runs for nobody", "UPDATE job_heads SET lease_token = '' WHERE job_id = 'job-open'", "I29"
    ),
)


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name.replace(" ", "_"))
async def test_planted_damage_is_named(backend: SqliteBackend | PostgresBackend, planted: Planted) -> None:
    """Change one thing behind the store's back; the report names the invariant that it breaks."""
    store = await _open(backend)
    try:
        assert (await verify(store)).clean
        await _plant(store, planted.statement)
        report = await verify(store)
        assert planted.invariant in {violation.invariant for violation in report.violations}, (
            report.violations
        )
    finally:
        await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_a_healthy_store_is_clean(backend: SqliteBackend | PostgresBackend) -> None:
    """A store with jobs in every state, a session and blobs: nothing is found, and everything was looked at."""
    store = await _open(backend)
    try:
        report = await verify(store)
        assert report.clean, report.violations
        assert (report.jobs, report.sessions) == (5, 1)
        assert report.events > report.jobs
        assert report.blobs >= 3
    finally:
        await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_the_journal_cannot_be_changed(backend: SqliteBackend | PostgresBackend) -> None:
    """Update and delete an event or an act without lifting the guard: the database itself refuses both."""
    store = await _open(backend)
    try:
        for statement in (
            "DELETE FROM events WHERE seq = 1",
            "UPDATE events SET at = 0 WHERE seq = 1",
            "DELETE FROM audit_acts WHERE seq = 3",
            "UPDATE audit_acts SET at = 0 WHERE seq = 1",
        ):
            with pytest.raises(Exception, match="append-only"):
                await _execute(store, statement)
        assert (await verify(store)).clean
    finally:
        await store.close()


async def _open(backend: SqliteBackend | PostgresBackend) -> SqlStore:
    store = await backend.open()
    assert isinstance(store, SqlStore)
    await populate(store, backend.clock)
    return store


async def _plant(store: SqlStore, statement: str) -> None:
    """The statement is carried out, whatever the schema says against it."""
    if isinstance(store.executor, SqliteExecutor):
        guards = (
            "DROP TRIGGER events_are_not_changed; DROP TRIGGER events_are_not_removed; "
            "DROP TRIGGER acts_are_not_changed; DROP TRIGGER acts_are_not_removed; "
            "DROP INDEX heads_session_live; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON"
        )
        await _execute(store, guards)
        await _execute(store, statement.replace("{bytes}", "BLOB"))
        return
    await _execute(
        store,
        "ALTER TABLE events DISABLE TRIGGER USER; ALTER TABLE audit_acts DISABLE TRIGGER USER; "
        "DROP INDEX heads_session_live; "
        "SET session_replication_role = replica; ALTER TABLE job_heads DROP CONSTRAINT job_heads_check; "
        "ALTER TABLE job_heads DROP CONSTRAINT job_heads_check1; "
        "ALTER TABLE inbox_batches DROP CONSTRAINT inbox_batches_check1; "
        + statement.replace("{bytes}", "BYTEA"),
    )


async def _execute(store: SqlStore, script: str) -> None:
    if isinstance(store.executor, SqliteExecutor):
        store.executor.writer.execute(script).fetchall()
    else:
        assert isinstance(store.executor, PostgresExecutor)
        async with store.executor.connections.acquire() as connection:
            await connection.execute(script)
