"""Blocks that ask a model: once, side by side, and in a conversation whose tools are carried out."""

from __future__ import annotations

from tests.kill.programs.writer import Function, Writer, block


@block(0.8)
def ask_model(w: Writer, f: Function, depth: int) -> list[str]:
    w.calls += 1
    question = f"llm.ask([hf.user({w.label(f, 'say')})])"
    reply = w.variable("reply")
    if w.maybe(0.5):
        return [f"{reply} = await {question}", f"out.append({reply}.text)", *w.leaf(f)]
    w.calls += 1
    other = f"llm.ask([hf.user({w.label(f, 'say')})])"
    return [
        f"{reply} = await asyncio.gather({question}, {other})",
        f"out.append([one.text for one in {reply}])",
    ]


@block(0.6)
def conversation(w: Writer, f: Function, depth: int) -> list[str]:
    """As an agent does it: ask, run the tools that the model wants, ask again."""
    w.calls += 4
    messages, reply = w.variable("messages"), w.variable("reply")
    return [
        f"{messages} = [hf.user({w.label(f, 'buy')})]",
        "while True:",
        f"    {reply} = await llm.ask({messages}, tools=[pay, look])",
        f"    if not {reply}.calls:",
        "        break",
        f"    {messages} += [{reply}.message, await hf.run_tools({reply}, [pay, look])]",
        f"out.append({reply}.text)",
    ]
