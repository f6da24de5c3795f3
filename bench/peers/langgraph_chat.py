"""A conversation in LangGraph: as much is said in a turn as in ours.

Says `ready`, then reads `lap turn` lines and answers `done`.
"""


# mypy: ignore-errors

from __future__ import annotations

import operator
import sqlite3
import sys
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

HALF = 1024


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


def answer(_state: State) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": "answered at length " * (HALF // 19)}]}


def main(path: str) -> None:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    saver = SqliteSaver(connection)
    saver.setup()
    app = graph.compile(checkpointer=saver)
    said = "what is said " * (HALF // 13)
    print("ready", flush=True)
    for line in sys.stdin:
        lap, _turn = line.split()
        config = {"configurable": {"thread_id": f"session-{lap}"}}
        app.invoke({"messages": [{"role": "user", "content": said}]}, config, durability="sync")
        print("done", flush=True)


main(sys.argv[1])
