"""Plans: made once, carried out in parallel, the same after any recovery; and bad ones refused before anything runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf
from holdfast.api.job_records import SpanKind
from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.fork import fork
from holdfast.engine.replay_check import replay
from holdfast.errors import Fenced, InvalidPlan, InvalidSetting
from holdfast.model.events import ChildStarted, JobRequeued, NodeFinished, NodeStarted, PlanGenerated
from holdfast.model.ids import SequentialIds
from holdfast.model.time import MINUTE, SECOND
from holdfast.testing import survives_crashes
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)
on_memory = pytest.mark.parametrize("backend", ["memory"], indirect=True)
on_two_stores = pytest.mark.parametrize("backend", ["memory", "sqlite"], indirect=True)


@dataclass
class Order:
    cents: int


class Bench:
    """Tools that count what they really do."""

    def __init__(self) -> None:
        self.app = hf.App(store="memory:")
        self.done: Counter[str] = Counter()
        self.begun: dict[str, asyncio.Event] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.broken: set[str] = set()
        self.look = self.app.tool(effect="read_only", name="look")(self._look)
        self.pay = self.app.tool(effect="idempotent", name="pay")(self._pay)
        self.send = self.app.tool(effect="unsafe", name="send")(self._send)
        self.join = self.app.tool(effect="read_only", name="join")(self._join)

    async def _did(self, what: str) -> None:
        self.done[what] += 1
        self.begun.setdefault(what, asyncio.Event()).set()
        if what in self.gates:
            await self.gates[what].wait()
        if what in self.broken:
            raise LookupError(f"{what} is broken")

    async def _look(self, what: str) -> dict[str, Any]:
        await self._did(f"look {what}")
        return {"name": what.upper(), "items": [{"cents": 5}, {"cents": len(what)}]}

    async def _pay(self, order: str, cents: int, *, key: hf.Key = hf.KEY) -> str:
        await self._did(f"pay {order} {cents}")
        return f"{order}:{cents}"

    async def _send(self, to: str) -> str:
        await self._did(f"send {to}")
        return f"sent to {to}"

    async def _join(self, *, parts: list[str], glue: str = "+") -> str:
        await self._did(f"join {glue}")
        return glue.join(parts)

    @property
    def tools(self) -> list[Any]:
        return [self.look, self.pay, self.send, self.join]

    def diamond(self) -> hf.Plan:
        """find → (pay, send) → report, with references at every edge."""
        return hf.Plan(
            [
                hf.Node("find", self.look, {"what": "ada"}),
                hf.Node("pay", self.pay, {"order": "o-1", "cents": hf.Ref("find", "items", 1, "cents")}),
                hf.Node("send", self.send, {"to": hf.Ref("find", "name")}),
                hf.Node(
                    "report", "join", {"parts": [hf.Ref("pay"), hf.Ref("send")], "glue": "&"}, after=["find"]
                ),
            ]
        )


DONE = {"look ada": 1, "pay o-1 3": 1, "send ADA": 1, "join &": 1}


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def submitted(shop: Shop, agent: hf.Agent[..., Any]) -> str:
    shop.programs[agent.name] = agent.program
    return (await shop.store.jobs.submit(agent.draft({}))).job_id


def values(outcomes: dict[str, hf.NodeOutcome]) -> dict[str, Any]:
    return {name: one.value if one.succeeded else one.status for name, one in outcomes.items()}


async def node_facts(shop: Shop, job_id: str) -> list[str]:
    said = []
    for event in await shop.events(job_id):
        match event:
            case PlanGenerated(plan=plan):
                said.append("plan " + " ".join(node["name"] for node in plan["nodes"]))
            case NodeStarted(node=node):
                said.append(f"{node} started")
            case NodeFinished(node=node, outcome=outcome):
                said.append(f"{node} {outcome}")
            case _:
                pass
    return said


# ── order, references, parallelism ────────────────────────────────────────────────────────────────


@on_every_store
async def test_a_plan_is_recorded_once_and_carried_out_in_order(backend: Backend, bench: Bench) -> None:
    @bench.app.agent
    async def program() -> Any:
        return values(await hf.execute(bench.diamond(), tools=bench.tools))

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == {
            "find": {"name": "ADA", "items": [{"cents": 5}, {"cents": 3}]},
            "pay": "o-1:3",
            "send": "sent to ADA",
            "report": "o-1:3&sent to ADA",
        }
        facts = await node_facts(shop, job_id)
        assert facts[:5] == [
            "plan find pay send report",
            "find started",
            "find succeeded",
            "pay started",
            "send started",
        ]
        assert set(facts[5:7]) == {"pay succeeded", "send succeeded"}
        assert facts[7:] == ["report started", "report succeeded"]
        replayed = await replay(shop.store, job_id, program.program, clock=shop.clock)
        assert replayed.difference is None
    assert bench.done == DONE


async def test_outside_a_job_a_plan_is_carried_out_as_it_is(bench: Bench) -> None:
    outcomes = await hf.execute(bench.diamond(), tools=[bench.join])
    assert values(outcomes)["report"] == "o-1:3&sent to ADA"
    assert list(outcomes) == ["find", "pay", "send", "report"]


@on_memory
async def test_independent_nodes_run_together(backend: Backend, bench: Bench) -> None:
    """Neither comes to its end unless both have begun."""
    bench.gates = {"look a": asyncio.Event(), "look b": asyncio.Event()}

    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan([hf.Node(one, bench.look, {"what": one}) for one in "ab"])
        return sorted(await hf.execute(plan))

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        run = asyncio.ensure_future((await shop.claim()).go())
        for one in "ab":
            await asyncio.wait_for(bench.begun.setdefault(f"look {one}", asyncio.Event()).wait(), 10)
        for gate in bench.gates.values():
            gate.set()
        assert await run == "completed"
        assert (await shop.job(job_id)).output == ["a", "b"]


@on_memory
async def test_results_have_the_type_that_the_tool_declares(backend: Backend, bench: Bench) -> None:
    """A node's value is typed; a reference sees it as JSON."""

    @bench.app.tool(effect="read_only")
    async def fetch() -> Order:
        return Order(cents=7)

    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan(
            [
                hf.Node("fetch", fetch),
                hf.Node("pay", bench.pay, {"order": "o", "cents": hf.Ref("fetch", "cents")}),
            ]
        )
        outcomes = await hf.execute(plan)
        return [isinstance(outcomes["fetch"].value, Order), outcomes["pay"].value]

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == [True, "o:7"]


@on_memory
async def test_the_same_plan_twice_is_two_plans(backend: Backend, bench: Bench) -> None:
    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan([hf.Node("a", bench.look, {"what": "a"})])
        return [len(await hf.execute(plan)), len(await hf.execute(plan))]

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        made = [event for event in await shop.events(job_id) if isinstance(event, PlanGenerated)]
        assert len({event.plan_id for event in made}) == 2
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
    assert bench.done == {"look a": 2}


@on_memory
async def test_agents_among_the_tools_are_jobs_of_their_own(backend: Backend, bench: Bench) -> None:
    @bench.app.agent
    async def helper(what: str) -> str:
        return str((await bench.look(what))["name"])

    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan(
            [
                hf.Node("a", helper, {"what": "x"}),
                hf.Node("b", "helper", {"what": hf.Ref("a")}),
            ]
        )
        return values(await hf.execute(plan))

    async with opened(backend) as shop:
        shop.programs[helper.name] = helper.program
        job_id = await submitted(shop, program)
        assert (await shop.drive_all()).count("completed") == 3
        assert (await shop.job(job_id)).output == {"a": "X", "b": "X"}
        children = [event for event in await shop.events(job_id) if isinstance(event, ChildStarted)]
        assert [event.step_key for event in children] == [
            "0/execute#1/a#1/spawn:helper#1",
            "0/execute#1/b#1/spawn:helper#1",
        ]
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None


# ── recovery ──────────────────────────────────────────────────────────────────────────────────────


def test_every_crash_point_is_survived() -> None:
    bench = Bench()

    @bench.app.agent
    async def program() -> Any:
        return values(await hf.execute(bench.diamond(), tools=bench.tools))

    survival = survives_crashes(program, reset=bench.done.clear)
    assert len(survival.points) > 15


def test_a_planned_plan_survives_every_crash_point() -> None:
    """The planner does things on its way, too; none of them twice."""
    bench = Bench()

    async def planner(goal: str) -> hf.Plan:
        found = await bench.pay(goal, 1)
        return hf.Plan(
            [hf.Node("a", "look", {"what": found}), hf.Node("b", "send", {"to": hf.Ref("a", "name")})]
        )

    @bench.app.agent
    async def program() -> Any:
        plan = await hf.plan(planner, "goal", tools=bench.tools)
        return values(await hf.execute(plan))

    survival = survives_crashes(program, reset=bench.done.clear, kill="twice")
    assert len(survival.points) > 15, "planner and nodes are cut off"


@on_two_stores
async def test_finished_nodes_are_not_run_again(backend: Backend, bench: Bench) -> None:
    """The worker is killed while two of four parallel nodes are done: the next one runs the other two."""
    bench.gates = {"look c": asyncio.Event(), "pay d 1": asyncio.Event()}

    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan(
            [
                hf.Node("a", bench.send, {"to": "a"}),
                hf.Node("b", bench.look, {"what": "b"}),
                hf.Node("c", bench.look, {"what": "c"}),
                hf.Node("d", bench.pay, {"order": "d", "cents": 1}),
                hf.Node("e", bench.look, {"what": hf.Ref("c", "name")}, after=["a", "b", "d"]),
            ]
        )
        return list(values(await hf.execute(plan)))

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        run = await shop.claim(worker="first")
        going = asyncio.ensure_future(run.go())
        for begun in ("look c", "pay d 1"):
            await asyncio.wait_for(bench.begun.setdefault(begun, asyncio.Event()).wait(), 10)
        while "b succeeded" not in (told := await node_facts(shop, job_id)) or "a succeeded" not in told:
            await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
        before = await node_facts(shop, job_id)
        run.lose(Fenced("this process was killed"))
        assert await going == "lost"
        bench.gates.clear()
        shop.clock.advance(2 * MINUTE)
        assert await shop.drive_all(worker="second") == ["completed"]
        after = await node_facts(shop, job_id)
        assert after[: len(before)] == before
        assert after.count("plan a b c d e") == 1
        assert all(after.count(f"{node} succeeded") == 1 for node in "abcde")
        assert (await shop.job(job_id)).output == ["a", "b", "c", "d", "e"]
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
    assert bench.done == {"send a": 1, "look b": 1, "look c": 2, "pay d 1": 2, "look C": 1}


@on_two_stores
async def test_the_recorded_plan_is_followed_whatever_the_code_builds(backend: Backend, bench: Bench) -> None:
    """Another plan on each run (as a set would give, or a model): only the first is heard of."""
    built: list[str] = []

    @bench.app.agent
    async def program() -> Any:
        built.append(f"run-{len(built)}")
        plan = hf.Plan(
            [
                hf.Node("first", bench.send, {"to": built[-1]}),
                hf.Node(f"only-in-{built[-1]}", bench.look, {"what": built[-1]}, after=["first"]),
            ]
        )
        outcomes = await hf.execute(plan)
        await hf.sleep("1h")
        return values(outcomes)

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(120 * MINUTE)
        assert await shop.drive_all() == ["completed"]
        output = (await shop.job(job_id)).output
        assert list(output) == ["first", "only-in-run-0"]
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
    assert len(built) == 3
    assert bench.done == {"send run-0": 1, "look run-0": 1}


@on_two_stores
async def test_a_fork_follows_the_plan_or_makes_its_own(backend: Backend, bench: Bench) -> None:
    """Forked at a node, it has the plan and the nodes before; forked at the plan, it makes another."""
    built: list[str] = []

    @bench.app.agent
    async def program() -> Any:
        built.append(f"run-{len(built)}")
        plan = hf.Plan(
            [
                hf.Node("a", bench.look, {"what": built[-1]}),
                hf.Node("b", bench.send, {"to": hf.Ref("a", "name")}),
            ]
        )
        return values(await hf.execute(plan))["b"]

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        ids = SequentialIds(5)
        at_node = await fork(shop.store, job_id, at="0/execute#1/b#1/send#1", ids=ids)
        at_plan = await fork(shop.store, job_id, at="0/execute#1/plan#1", ids=ids)
        assert sorted(await shop.drive_all()) == ["completed", "completed"]
        outputs = [(await shop.job(one)).output for one in (job_id, at_node.job_id, at_plan.job_id)]
        assert outputs == ["sent to RUN-0", "sent to RUN-0", f"sent to {built[-1].upper()}"]
        for one in (at_node, at_plan):
            told = await node_facts(shop, one.job_id)
            assert [fact for fact in told if fact.startswith("plan")] == ["plan a b"]
            assert (
                await replay(shop.store, one.job_id, program.program, clock=shop.clock)
            ).difference is None
    assert bench.done["look run-0"] == 1


@on_memory
async def test_the_trace_lets_no_read_begin_before_its_node(backend: Backend, bench: Bench) -> None:
    async with opened(backend) as shop:

        @bench.app.tool(effect="read_only")
        async def slow(what: str) -> str:
            shop.clock.advance(1 * MINUTE // 60)
            return what

        @bench.app.agent
        async def program() -> None:
            nodes = [hf.Node("a", slow, {"what": "x"}), hf.Node("b", slow, {"what": hf.Ref("a")})]
            await hf.execute(hf.Plan(nodes))

        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        client = EmbeddedClient(shop.store, shop.clock, SequentialIds(9))
        spans = (await client.trace(job_id)).spans
        first, second = [span for span in spans if span.kind is SpanKind.READ]
        assert first.scope == ("execute#1", "a#1")
        assert first.end_at is not None
        assert second.start_at >= first.end_at


# ── planners ──────────────────────────────────────────────────────────────────────────────────────


def submits(*nodes: dict[str, Any], **when: Any) -> dict[str, Any]:
    return {"calls": [{"tool": "submit_plan", "args": {"nodes": list(nodes)}}], **when}


GOOD = (
    {"name": "a", "tool": "look", "args": {"what": "ada"}},
    {
        "name": "b",
        "tool": "pay",
        "args": {"order": "o", "cents": {"$ref": "a", "path": ["items", 1, "cents"]}},
    },
)


@on_every_store
async def test_a_model_plans_once(backend: Backend, bench: Bench) -> None:
    """A model that would answer otherwise the second time is not asked a second time."""
    asked = 0

    @bench.app.agent
    async def program() -> Any:
        nonlocal asked
        asked += 1
        nodes = GOOD if asked == 1 else ({"name": "z", "tool": "send", "args": {"to": "nobody"}},)
        plan = await hf.plan(hf.llm([submits(*nodes)]), "pay ada", tools=bench.tools)
        outcomes = await hf.execute(plan)
        await hf.sleep("1h")
        return values(outcomes)

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(120 * MINUTE)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output["b"] == "o:3"
        facts = await node_facts(shop, job_id)
        assert [fact for fact in facts if fact.startswith("plan")] == ["plan a b"]
        kinds = [event.type for event in await shop.events(job_id)]
        assert kinds.count("llm_requested") == 1
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
    assert bench.done == {"look ada": 1, "pay o 3": 1}


async def test_a_plan_that_cannot_work_goes_back_to_the_model(bench: Bench) -> None:
    """First no plan at all, then one with an unknown tool; each time it is told, and the third is taken."""
    model = hf.llm(
        [
            submits(*GOOD, when="not among the tools"),
            submits({"name": "a", "tool": "fly", "args": {}}, turn=1),
            {"text": "Let me think.", "turn": 0},
            submits(*GOOD),
        ]
    )
    plan = await hf.plan(model, "pay ada", tools=bench.tools)
    assert [node.name for node in plan.order()] == ["a", "b"]


async def test_a_model_that_plans_nonsense_is_given_up(bench: Bench) -> None:
    model = hf.llm([submits({"name": "a", "tool": "look", "args": {"what": {"$ref": "a"}}})])
    with pytest.raises(InvalidPlan, match=r"no valid plan in 3 attempts: the plan has a cycle: a → a"):
        await hf.plan(model, "pay ada", tools=bench.tools)


async def test_a_planner_must_return_a_plan(bench: Bench) -> None:
    async def planner(goal: str) -> Any:
        return [goal]

    with pytest.raises(InvalidPlan, match="the planner returned a list"):
        await hf.plan(planner, "x", tools=bench.tools)


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


def broken(bench: Bench) -> hf.Plan:
    """bad → needs (its output), after (it is over), then; and good, which has nothing to do with it."""
    return hf.Plan(
        [
            hf.Node("bad", bench.look, {"what": "bad"}),
            hf.Node("needs", bench.look, {"what": hf.Ref("bad", "name")}),
            hf.Node("after", bench.look, {"what": "after"}, after=["bad"]),
            hf.Node("then", bench.look, {"what": "then"}, after=["needs"]),
            hf.Node("good", bench.look, {"what": "good"}),
        ]
    )


STATES = {
    "skip_dependents": ["failed", "skipped", "skipped", "skipped", "succeeded"],
    "go_on": ["failed", "skipped", "succeeded", "succeeded", "succeeded"],
}


@pytest.mark.parametrize("policy", STATES)
@on_memory
async def test_what_a_failure_leaves_out(backend: Backend, bench: Bench, policy: Any) -> None:
    bench.broken = {"look bad"}

    @bench.app.agent
    async def program() -> Any:
        outcomes = await hf.execute(broken(bench), on_failure=policy)
        await hf.sleep("1h")
        return {name: [one.status, one.error] for name, one in outcomes.items()}

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(120 * MINUTE)
        assert await shop.drive_all() == ["completed"]
        output = (await shop.job(job_id)).output
        states = {name: state for name, (state, _) in output.items()}
        wanted = dict(zip(["bad", "needs", "after", "then", "good"], STATES[policy], strict=True))
        assert states == wanted
        assert output["bad"][1] == "LookupError: look bad is broken"
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
    assert bench.done["look bad"] == 1, "a failure that is an outcome is not tried again"


@on_two_stores
async def test_a_plan_that_stops_is_tried_again_from_the_failed_node(backend: Backend, bench: Bench) -> None:
    """`stop` raises, so the attempt fails: the next one makes the failed call again, and no other."""
    bench.broken = {"look bad"}
    seen: list[hf.PlanFailed] = []

    @bench.app.agent
    async def program() -> Any:
        try:
            return values(await hf.execute(broken(bench)))
        except hf.PlanFailed as failed:
            seen.append(failed)
            raise

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["pending"]
        (requeued,) = [event for event in await shop.events(job_id) if isinstance(event, JobRequeued)]
        assert requeued.rerun == ("0/execute#1/bad#1/look#1",)
        bench.broken = set()
        shop.clock.advance(120 * MINUTE)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output["needs"]["name"] == "BAD"
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
        facts = await node_facts(shop, job_id)
        assert facts.count("bad started") == 2
        assert [fact for fact in facts if fact.startswith("bad")][1::2] == ["bad failed", "bad succeeded"]
    (failed,) = seen
    assert failed.node == "bad"
    assert "node 'bad' failed: LookupError: look bad is broken; not begun: needs, after, then" in str(failed)
    assert [one.status for one in failed.outcomes.values()].count("skipped") == 3
    assert bench.done["look bad"] == 2
    assert bench.done["look good"] == 1


@on_memory
async def test_a_plan_that_takes_too_long_is_given_up_the_same_way_again(
    backend: Backend, bench: Bench
) -> None:
    """A timeout around a plan: the nodes that ran are given up, and a replay gives them up at the same point."""
    bench.gates = {"look slow": asyncio.Event()}

    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan(
            [hf.Node("quick", bench.look, {"what": "q"}), hf.Node("slow", bench.look, {"what": "slow"})]
        )
        try:
            async with asyncio.timeout(0.05):
                await hf.execute(plan)
        except TimeoutError:
            return "too long"

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        asyncio.get_running_loop().call_later(0.02, shop.clock.advance, SECOND)
        assert await (await shop.claim()).go() == "completed"
        assert (await shop.job(job_id)).output == "too long"
        assert (await node_facts(shop, job_id))[-1] == "slow cancelled"
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None


# ── bad plans ─────────────────────────────────────────────────────────────────────────────────────

BAD: dict[str, tuple[str, list[tuple[str, str, dict[str, Any], list[str]]]]] = {
    "a cycle": (
        "the plan has a cycle: a → b → a",
        [("a", "look", {"what": "x"}, ["b"]), ("b", "look", {"what": "x"}, ["a"])],
    ),
    "an unknown node": ("'a' refers to 'z'", [("a", "look", {"what": {"$ref": "z"}}, [])]),
    "an unknown tool": (
        r"node 'a' calls 'fly', which is not among the tools \(join, look",
        [("a", "fly", {}, [])],
    ),
    "a missing argument": (
        "node 'a': .*missing a required argument: 'cents'",
        [("a", "pay", {"order": "o"}, [])],
    ),
    "an argument too many": (
        "node 'a': .*unexpected keyword argument 'why'",
        [("a", "look", {"what": "x", "why": 1}, [])],
    ),
    "another type": (
        "node 'b': argument 'cents' of .* does not match its type",
        [
            ("a", "look", {"what": "x"}, []),
            ("b", "pay", {"order": {"$ref": "a", "path": ["name"]}, "cents": "many"}, []),
        ],
    ),
    "a key of its own": (
        "node 'a': .* was called with an idempotency key",
        [("a", "pay", {"order": "o", "cents": 1, "key": "k"}, [])],
    ),
    "a name twice": (
        "two nodes are called 'a'",
        [("a", "look", {"what": "x"}, []), ("a", "look", {"what": "x"}, [])],
    ),
}


@pytest.mark.parametrize("wrong", BAD)
@on_memory
async def test_a_bad_plan_is_refused_before_the_first_node(
    backend: Backend, bench: Bench, wrong: str
) -> None:
    """A good node stands first in each: it is not run, and nothing is recorded."""
    message, nodes = BAD[wrong]

    @bench.app.agent
    async def program() -> str:
        try:
            good = hf.Node("good", bench.send, {"to": "ada"})
            plan = hf.Plan([good, *(hf.Node(*node) for node in nodes)])
            await hf.execute(plan, tools=bench.tools)
        except InvalidPlan as error:
            return str(error)
        return "taken"

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        with pytest.raises(InvalidPlan, match=message):
            raise InvalidPlan((await shop.job(job_id)).output)
        assert await node_facts(shop, job_id) == []
    assert not bench.done


@on_memory
async def test_a_reference_to_nothing_is_the_failure_of_its_node(backend: Backend, bench: Bench) -> None:
    @bench.app.agent
    async def program() -> Any:
        plan = hf.Plan(
            [
                hf.Node("a", bench.look, {"what": "x"}),
                hf.Node("b", bench.look, {"what": hf.Ref("a", "items", 7)}),
                hf.Node("c", bench.look, {"what": hf.Ref("a", "items", 0)}),
            ]
        )
        outcomes = await hf.execute(plan, on_failure="go_on")
        return [one.error for one in outcomes.values()]

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        said = (await shop.job(job_id)).output
    assert said[0] == ""
    assert said[1] == "'a/items/7' refers to nothing: 'a/items' has no 7"
    assert "argument 'what'" in said[2]
    assert bench.done == {"look x": 1}


async def test_settings_that_make_no_sense_are_refused(bench: Bench) -> None:
    plan = hf.Plan([hf.Node("a", bench.look, {"what": "x"})])
    with pytest.raises(InvalidSetting, match="on_failure='retry' is not known"):
        await hf.execute(plan, on_failure="retry")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="neither a tool nor an agent"):
        await hf.execute(hf.Plan([hf.Node("a", "look", {"what": "x"})]), tools=[print])  # type: ignore[list-item]
    other = hf.App(store="memory:").tool(effect="read_only", name="look")(bench._look)
    with pytest.raises(InvalidSetting, match="two tools called 'look'"):
        await hf.execute(plan, tools=[other])
    assert not bench.done
