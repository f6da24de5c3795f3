"""The ledger: rows that appends write, along the allowed transitions."""

from __future__ import annotations

import contextlib

import msgspec

from holdfast.errors import InvalidMove, KeyReused, Misuse
from holdfast.model.append import Extras
from holdfast.model.events import ToolReturned
from holdfast.model.hash_chain import unseal
from holdfast.model.ledger import CallRow
from holdfast.model.side_effects import CALL_MOVES, CallStatus
from holdfast.store.ports.ledger import Receipt
from holdfast.testing.conformance.drafts import call_row, intent_of, make_settled_row, outcome_of
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Bench, present


async def an_intent_and_its_outcome_are_one_row(bench: Bench) -> None:
    driver = await bench.drive_new()
    row = await _prepare_call(driver, "1/mail#1")
    assert await bench.store.ledger.find(driver.job_id, "1/mail#1") == row
    assert await bench.store.ledger.find_by_key(row.idempotency_key) == row
    bench.clock.advance(1)
    row = await _settle(driver, row, CallStatus.SUCCEEDED)
    assert await bench.store.ledger.find(driver.job_id, "1/mail#1") == row
    assert await bench.store.ledger.list(driver.job_id) == [row]


async def a_call_that_never_was_is_not_found(bench: Bench) -> None:
    driver = await bench.drive_new()
    await _prepare_call(driver, "1/mail#1")
    assert await bench.store.ledger.find(driver.job_id, "1/mail#2") is None
    assert await bench.store.ledger.find(driver.job_id, "1/mail#1", generation=1) is None
    assert await bench.store.ledger.find_by_key("never heard of") is None
    assert await bench.store.ledger.list("job_unknown") == []


async def calls_are_listed_in_the_order_of_their_intents(bench: Bench) -> None:
    driver = await bench.drive_new()
    rows = [await _prepare_call(driver, step_key) for step_key in ("1/c#1", "1/a#1", "1/b#1")]
    rows[0] = await _settle(driver, rows[0], CallStatus.FAILED)
    assert await bench.store.ledger.list(driver.job_id) == rows
    assert await bench.store.ledger.list(driver.job_id, status=CallStatus.PREPARED) == rows[1:]
    assert await bench.store.ledger.list(driver.job_id, status=CallStatus.SKIPPED) == []


async def a_row_moves_only_along_the_moves_there_are(bench: Bench) -> None:
    driver = await bench.drive_new()
    for before in (None, *CallStatus):
        for after in CallStatus:
            step_key = f"1/{before}_to_{after}#1"
            row = await _bring_to(driver, step_key, before)
            if after in CALL_MOVES[before]:
                moved = await _bring_on(driver, step_key, row, after)
                assert await bench.store.ledger.find(driver.job_id, step_key) == moved
                continue
            try:
                await _bring_on(driver, step_key, row, after)
            except InvalidMove:
                assert await bench.store.ledger.find(driver.job_id, step_key) == row, "refused is unchanged"
                assert (await bench.store.jobs.head(driver.job_id)).head == driver.holder.head
            else:
                raise AssertionError(f"a call should not go from {before} to {after}")


async def a_settled_row_refuses_the_whole_append(bench: Bench) -> None:
    driver = await bench.drive_new()
    done = await _settle(driver, await _prepare_call(driver, "1/mail#1"), CallStatus.SUCCEEDED)
    fresh = call_row(driver, "1/mail#2")
    again = msgspec.structs.replace(done, status=CallStatus.PREPARED, attempt=2)
    async with bench.refuses(InvalidMove):
        append = driver.build(intent_of(fresh), extras=Extras(calls=(fresh, again)))
        await bench.store.journal.append(append)


async def a_resend_counts_its_attempts(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=0)
    row = await _prepare_call(driver, "1/mail#1")
    heir = await bench.drive(driver.grant.queue)
    again = msgspec.structs.replace(row, attempt=2, fence=heir.grant.fence)
    await heir.write(intent_of(again), extras=Extras(calls=(again,)))
    assert await bench.store.ledger.list(driver.job_id) == [again], "one row, whoever sends it"


async def what_a_call_was_made_with_does_not_change(bench: Bench) -> None:
    driver = await bench.drive_new()
    row = await _prepare_call(driver, "1/mail#1")
    other = msgspec.structs.replace(
        row, tool_name="other", raw_tool_name="Other", intent_seq=99, prepared_at=1
    )
    with contextlib.suppress(Misuse):
        await driver.write(intent_of(other), extras=Extras(calls=(other,)))
    assert await bench.store.ledger.list(driver.job_id) == [row], "a row moves on, its intent stays"


async def a_new_generation_is_a_new_row(bench: Bench) -> None:
    driver = await bench.drive_new()
    first = await _settle(driver, await _prepare_call(driver, "1/mail#1"), CallStatus.ABANDONED)
    second = call_row(driver, "1/mail#1", generation=1)
    await driver.write(intent_of(second), extras=Extras(calls=(second,)))
    assert first.idempotency_key != second.idempotency_key
    assert await bench.store.ledger.list(driver.job_id) == [first, second]
    assert await bench.store.ledger.find(driver.job_id, "1/mail#1", generation=1) == second


async def a_key_of_another_step_is_refused(bench: Bench) -> None:
    driver, other = await bench.drive_new(), await bench.drive_new()
    row = await _prepare_call(driver, "1/mail#1")
    for thief in (driver, other):
        stolen = msgspec.structs.replace(call_row(thief, "1/mail#2"), idempotency_key=row.idempotency_key)
        async with bench.refuses(KeyReused):
            append = thief.build(intent_of(stolen), extras=Extras(calls=(stolen,)))
            await bench.store.journal.append(append)


async def a_key_with_other_arguments_is_refused(bench: Bench) -> None:
    driver = await bench.drive_new()
    row = await _prepare_call(driver, "1/mail#1")
    changed = msgspec.structs.replace(row, args_digest="other arguments", attempt=2)
    async with bench.refuses(KeyReused):
        append = driver.build(intent_of(changed), extras=Extras(calls=(changed,)))
        await bench.store.journal.append(append)


async def calls_are_counted_by_name_class_and_status(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    first, second = await bench.drive_new(), await bench.drive_new()
    await _prepare_call(first, "1/mail#1")
    await _prepare_call(second, "1/mail#1")
    await _settle(second, await _prepare_call(second, "1/mail#2"), CallStatus.FAILED)
    there = await bench.drive_new(namespace="elsewhere")
    await _prepare_call(there, "1/mail#1")
    counts = await bench.store.ledger.counts("default")
    assert counts == {("mailer", "idempotent", "prepared"): 2, ("mailer", "idempotent", "failed"): 1}
    assert await bench.store.ledger.counts("elsewhere") == {("mailer", "idempotent", "prepared"): 1}


async def a_receipt_is_the_latest_call_with_its_result(bench: Bench) -> None:
    driver, ledger = await bench.drive_new(), bench.store.ledger
    assert await ledger.receipt(driver.job_id, "1/mail#1") is None
    row = await _prepare_call(driver, "1/mail#1")
    assert await ledger.receipt(driver.job_id, "1/mail#1") == Receipt(row, None)
    row = await _settle(driver, row, CallStatus.ABANDONED)
    last = (await bench.store.journal.read(driver.job_id))[-1]
    assert await ledger.receipt(driver.job_id, "1/mail#1") == Receipt(row, last)
    second = call_row(driver, "1/mail#1", generation=1)
    await driver.write(intent_of(second), extras=Extras(calls=(second,)))
    await _prepare_call(driver, "1/mail#2")
    assert await ledger.receipt(driver.job_id, "1/mail#1") == Receipt(second, None), "the latest generation"
    second = make_settled_row(driver, second, CallStatus.SUCCEEDED)
    large = ToolReturned(second.step_key, 1, result="x" * 20_000)
    await driver.write(large, extras=Extras(calls=(second,)))
    found = present(await ledger.receipt(driver.job_id, "1/mail#1"), "the receipt")
    assert found.call == second
    assert unseal(present(found.result, "its result")) == large, "a large result, too"
    assert await ledger.receipt("job_unknown", "1/mail#1") is None


async def the_ledger_survives_a_new_handle(bench: Bench) -> None:
    driver = await bench.drive_new()
    row = await _prepare_call(driver, "1/mail#1")
    await bench.reopen()
    assert await bench.store.ledger.find_by_key(row.idempotency_key) == row


async def _prepare_call(driver: Driver, step_key: str) -> CallRow:
    row = call_row(driver, step_key)
    await driver.write(intent_of(row), extras=Extras(calls=(row,)))
    return row


async def _settle(driver: Driver, row: CallRow, status: CallStatus) -> CallRow:
    row = make_settled_row(driver, row, status)
    await driver.write(outcome_of(row), extras=Extras(calls=(row,)))
    return row


async def _bring_to(driver: Driver, step_key: str, status: CallStatus | None) -> CallRow | None:
    """A row in this status, brought there by allowed transitions."""
    if status is None:
        return None
    row = await _prepare_call(driver, step_key)
    return row if status is CallStatus.PREPARED else await _settle(driver, row, status)


async def _bring_on(driver: Driver, step_key: str, row: CallRow | None, status: CallStatus) -> CallRow:
    """The row one transition further; without a row, intent and outcome in one append."""
    if row is not None and status is CallStatus.PREPARED:
        again = msgspec.structs.replace(row, status=status, attempt=row.attempt + 1)
        await driver.write(intent_of(again), extras=Extras(calls=(again,)))
        return again
    if row is not None:
        return await _settle(driver, row, status)
    if status is CallStatus.PREPARED:
        return await _prepare_call(driver, step_key)
    row = call_row(driver, step_key)
    row = msgspec.structs.replace(
        row, status=status, result_seq=row.intent_seq + 1, settled_at=row.prepared_at
    )
    await driver.write(intent_of(row), outcome_of(row), extras=Extras(calls=(row,)))
    return row
