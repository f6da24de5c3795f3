"""Timeline of the demonstration: the important events of the journal as lines for a person, while they are written."""

from __future__ import annotations

from typing import Any, Final

from holdfast.api.job_records import EventView
from holdfast.model.time import SECOND
from holdfast.model.worker_identity import identity_in

_ENDS_OF_HOLD: Final = frozenset(
    {"job_waiting", "job_released", "job_completed", "job_failed", "job_cancelled"}
)


class Timeline:
    """Takes events in order. A line is a time, what happened, and a style."""

    def __init__(self) -> None:
        self._began: int | None = None
        self._finished = 0
        self._is_held = False

    def line(self, event: EventView) -> tuple[str, str, str] | None:
        self._began = event.at if self._began is None else self._began
        described = self._describe_event(event.type, event.body)
        if event.type in _ENDS_OF_HOLD:
            self._is_held = False
        elif event.type == "job_claimed":
            # If this worker dies, the next claim is a takeover, also if a sweep requeued the job before it.
            self._is_held = True
        if event.type in {"step_finished", "tool_returned", "llm_responded"}:
            self._finished += 1
        at = f"{(event.at - self._began) / SECOND:6.2f}s"
        return None if described is None else (at, *described)

    def _describe_event(self, kind: str, body: dict[str, Any]) -> tuple[str, str] | None:
        match kind:
            case "job_created":
                return "job accepted and stored: from here on it cannot be lost", ""
            case "job_claimed" if body.get("takeover") or self._is_held:
                progress = f"{self._finished} finished steps are recorded and not run again"
                return f"{_format_worker(body)} takes over: {progress}", "bold yellow"
            case "job_claimed":
                return f"{_format_worker(body)} claims the job", ""
            case "llm_responded":
                return f"model: {_describe_response(body['response'])}", "magenta"
            case "step_finished":
                return f"{_get_step_name(body)} ✓  {body.get('result')}", "green"
            case "tool_called":
                return f"{body['tool']} → about to be sent, idempotency key …{body['key'][-6:]}", "dim"
            case "tool_returned":
                how = (
                    "the receiver confirms that it happened: not sent again"
                    if body.get("adopted")
                    else body.get("result")
                )
                return f"{_get_step_name(body)} ✓  {how}", "green"
            case "job_waiting":
                return (
                    "waits until the dead worker can no longer be sending, then asks the receiver",
                    "dim",
                )
            case "tool_uncertain":
                return f"{_get_step_name(body)} ?  {body.get('why')}", "yellow"
            case "job_completed":
                return f"completed: {body['output']}", "bold green"
            case "job_failed" | "job_dead_lettered" | "job_cancelled":
                return f"{kind.replace('_', ' ')}: {body}", "bold red"
        return None


def _format_worker(body: dict[str, Any]) -> str:
    identity = identity_in(body["worker"])
    return f"worker {body['worker'] if identity is None else identity.pid}"


def _get_step_name(body: dict[str, Any]) -> str:
    return str(body["step_key"]).rpartition("/")[2].partition("#")[0]


def _describe_response(response: dict[str, Any]) -> str:
    texts = [block["text"] for block in response["content"] if block["type"] == "text"]
    calls = [
        f"{block['name']}({', '.join(map(str, block['input'].values()))})"
        for block in response["content"]
        if block["type"] == "tool_use"
    ]
    return "  ".join([*(f"“{text}”" for text in texts), ", ".join(calls)]).strip()
