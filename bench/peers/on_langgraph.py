"""LangGraph over its checkpointers, with the durability that waits for each checkpoint (`sync`)."""

# mypy: ignore-errors

from __future__ import annotations

import operator
import sqlite3
import time
from typing import Annotated, TypedDict

import line
import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row


def saver_of(told):
    if told.store == "sqlite":
        path = told.address.removeprefix("sqlite:///")
        made = SqliteSaver(sqlite3.connect(path, timeout=30, check_same_thread=False))
        made.setup()  # sets WAL
        made.conn.execute("PRAGMA synchronous=FULL")
        assert made.conn.execute("PRAGMA synchronous").fetchone() == (2,)
        assert made.conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    else:
        made = PostgresSaver(
            psycopg.connect(told.address, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        )
        made.setup()
    return made


def threads_counted(saver, thread):
    """Checkpoints of a thread, counted in the table itself."""
    mark = "?" if isinstance(saver, SqliteSaver) else "%s"
    sql = f"SELECT count(*) AS n FROM checkpoints WHERE thread_id = {mark}"
    row = saver.conn.execute(sql, (thread,)).fetchone()
    return row["n"] if isinstance(row, dict) else row[0]


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────


class Steps(TypedDict):
    number: int
    last: dict


class Serial(line.Work):
    """A graph whose one node comes after itself: each pass is a step, and its checkpoint the record."""

    def open(self):
        self.saver = saver_of(self.told)
        self.live_from, self.again, self.thread = None, 0, 0
        graph = StateGraph(Steps)
        graph.add_node("step", self.step)
        graph.add_edge(START, "step")
        graph.add_conditional_edges(
            "step", lambda state: END if state["number"] >= self.told.steps else "step"
        )
        self.app = graph.compile(checkpointer=self.saver)

    def step(self, state):
        return {"number": state["number"] + 1, "last": {**self.told.result, "status": state["number"]}}

    def config(self):
        limit = self.told.steps + 10
        return {"configurable": {"thread_id": f"thread-{self.thread}"}, "recursion_limit": limit}

    def operation(self, number):
        self.thread += 1
        ended = self.app.invoke({"number": 0, "last": {}}, self.config(), durability="sync")
        assert ended["number"] == self.told.steps

    def count(self):
        # Each run leaves its input, its start and one checkpoint a step.
        found = [threads_counted(self.saver, f"thread-{n}") for n in range(1, self.thread + 1)]
        return {"jobs": len(found), "steps": sum(found) - 2 * len(found)}


class Reached(BaseException):
    """The first step that is not recorded has begun."""


class History(Serial):
    def step(self, state):
        if state["number"] == self.told.steps - 1:
            raise Reached
        return super().step(state)

    def open(self):
        self.told.steps += 1
        super().open()

    def operation(self, number):
        self.thread = 1
        try:
            self.app.invoke({"number": 0, "last": {}}, self.config(), durability="sync")
        except Reached:
            return
        raise AssertionError("the last step was not reached")


class Resume(History):
    """State only: the last checkpoint is read and nothing is replayed."""

    def step(self, state):
        self.again += state["number"] < self.told.steps - 1
        return super().step(state)

    def operation(self, number):
        self.thread = 1
        began = time.perf_counter()
        try:
            self.app.invoke(None, self.config(), durability="sync")
        except Reached:
            return {"again": self.again, "took_s": time.perf_counter() - began}
        raise AssertionError("there was nothing to resume")


# ── a conversation ────────────────────────────────────────────────────────────────────────────────


class Messages(TypedDict):
    messages: Annotated[list[dict], operator.add]


class Chat(line.Work):
    """As much is said in a turn as in ours, half by the user, half by the assistant."""

    def open(self):
        half = self.told.turn_bytes // 2
        self.said, self.answered = "what is said " * (half // 13), "answered at length " * (half // 19)
        self.saver = saver_of(self.told)
        self.thread = 0
        graph = StateGraph(Messages)
        graph.add_node("answer", lambda _: {"messages": [{"role": "assistant", "content": self.answered}]})
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        self.app = graph.compile(checkpointer=self.saver)

    def begin(self):
        self.thread += 1

    def operation(self, number):
        config = {"configurable": {"thread_id": f"session-{self.thread}"}}
        asked = {"messages": [{"role": "user", "content": self.said}]}
        ended = self.app.invoke(asked, config, durability="sync")
        assert len(ended["messages"]) == 2 * (number + 1)


class Writers(line.Storm):
    """Each write is a checkpoint of the writer's own thread."""

    def open(self):
        saver_of(self.told).conn.close()

    def writer(self, nth):
        graph = StateGraph(Steps)
        graph.add_node("step", lambda state: state)
        graph.add_edge(START, "step")
        app = graph.compile(checkpointer=saver_of(self.told))
        config = {"configurable": {"thread_id": f"thread-{nth}"}}
        result = self.told.result
        return lambda number: app.update_state(config, {"number": number, "last": result}, as_node="step")

    def count(self):
        return {"jobs": saver_of(self.told).conn.execute("SELECT count(*) FROM checkpoints").fetchone()[0]}


WORKS = {"serial": Serial, "history": History, "resume": Resume, "chat": Chat, "writers": Writers}

line.main(WORKS)
