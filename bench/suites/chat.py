"""The built-in assistant through a long conversation: message to answer, near the beginning and near the end, and what
it leaves on disk: messages, journals, receipts and all; and with the journals of old turns pruned, as retention does.
Beside LangGraph over its own checkpointers."""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import make_figure, open_contestants, play
from bench.material import TURN_BYTES
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.report import Contest, Findings, make_goal
from bench.suites.session import BYTES_AT_MOST, LATE_AT_MOST, measure_bytes, near_10, near_end
from bench.surface import Chat, PrunedChat


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        peers = make_entrants("chat", store, arena.peers, turn_bytes=TURN_BYTES)
        contestants = await arena.enter(store, PrunedChat, Chat, *peers)
        absent: list[str] = []
        async with open_contestants(contestants, absent):
            weights = [await measure_bytes(one, arena.scale.turns) for one in contestants]
            results = await play(contestants, rounds=min(2, arena.scale.rounds), operations=arena.scale.turns)
        _, ours, *others = results
        for when, measure in (("near turn 10", near_10), (f"near turn {arena.scale.turns}", near_end)):
            contest = Contest("chat", when, store)
            findings.rows += contest.table(results, "one turn", measure, ours, others)
        disk = Contest("chat", f"{arena.scale.turns} turns on disk", store)
        findings.rows += [
            disk.weight(one.name, weight) for one, weight in zip(contestants, weights, strict=True)
        ]
        flat = make_figure([near_end(lap) / near_10(lap) for lap in ours.laps])
        findings.goals += [
            make_goal(f"chat bytes {store}", weights[0], "at most", BYTES_AT_MOST, "× the text, pruned"),
            make_goal(f"chat flat {store}", flat, "at most", LATE_AT_MOST, "× a turn near turn 10"),
        ]
        if peers:
            findings.beside("chat", store, LEFT_OUT["chat"], absent)
