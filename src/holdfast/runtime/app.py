"""Application: its agents and tools, its store, and the process that runs its jobs when it is simply called."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, get_args

from holdfast.agents.app_registry import AppRegistry
from holdfast.engine.audit_hook import OnUndurable
from holdfast.engine.runner_config import Program
from holdfast.engine.task_scopes import create_detached_task
from holdfast.errors import InvalidSetting
from holdfast.runtime.process import Process, open_process
from holdfast.store import address

if TYPE_CHECKING:
    from holdfast.agents.policy import Policy

STORE: Final = "HOLDFAST_STORE"
ON_UNDURABLE: Final = "HOLDFAST_ON_UNDURABLE"
POLICY: Final = "HOLDFAST_POLICY"

log = logging.getLogger("holdfast")


class App(AppRegistry):
    """Agents and tools over one store.

    `store` is an address (`sqlite:///file.db`, `postgresql://…`, `memory:`); without one it is `HOLDFAST_STORE`, or a
    SQLite file in the working directory. `durability="strict"` waits for the disk after each step; by default only
    what leaves the job does (an effect, an answer, the end), and a crash takes back nothing that has been seen
    outside.

    `on_undurable` is what happens when an agent's own code connects a socket, starts a process or writes a file
    outside a tool: `"warn"` logs the place, `"error"` refuses it and ends the job, `"ignore"` does nothing. The
    default is `"warn"` in `holdfast worker`, `up`, `run` and `chat`, and `"ignore"` in an application that drives jobs
    itself. `policy` is a policy file or an `hf.Policy`: the classes, retries and timeouts of tools and agents by name,
    which override those in the code. `HOLDFAST_ON_UNDURABLE` and `HOLDFAST_POLICY` override both arguments.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        concurrency: int = 16,
        durability: Literal["output", "strict"] = "output",
        on_undurable: OnUndurable | None = None,
        policy: Policy | str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if durability not in {"output", "strict"}:
            msg = f"durability={durability!r} is not known"
            raise InvalidSetting(msg, hint='Leave it out, or say durability="strict".')
        self._store = store
        self._on_undurable = (
            None if on_undurable is None else _check_on_undurable(on_undurable, "on_undurable")
        )
        self._policy = policy
        self._concurrency = concurrency
        self._strict = durability == "strict"
        self._processes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Process]] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def store(self) -> str:
        """The current address of the store."""
        return self._store or os.environ.get(STORE) or address.DEFAULT

    @property
    def declared_store(self) -> str | None:
        """The address that the code declares; None, if it leaves the choice to the environment or the command line."""
        return self._store

    def choose_on_undurable(self, usual: OnUndurable) -> OnUndurable:
        """What happens when job code does something to the outside world without a tool: the setting of the
        environment, else of the application, else `usual`, the default of the caller."""
        setting = os.environ.get(ON_UNDURABLE)
        return _check_on_undurable(setting, ON_UNDURABLE) if setting else self._on_undurable or usual

    def programs(self) -> dict[str, Program]:
        """The code for each kind of job. Applies the policy to its tools and agents."""
        policy = self._find_policy()
        if policy is not None:
            policy.apply(self)
        return super().programs()

    def _find_policy(self) -> Policy | None:
        where = os.environ.get(POLICY) or self._policy
        if where is None:
            return None
        from holdfast.agents.policy import Policy

        return where if isinstance(where, Policy) else Policy.read(where)

    @property
    def concurrency(self) -> int:
        """How many jobs a worker of this application runs at a time, unless the worker is given another number."""
        return self._concurrency

    @property
    def strict(self) -> bool:
        """Whether each step waits for the disk."""
        return self._strict

    async def host(self) -> Process:
        """The process of this event loop; the end of the loop ends it. It submits jobs, and drives those that are
        called; it is a worker only in `running`."""
        loop = asyncio.get_running_loop()
        if loop not in self._processes:
            self._warn_other_store()
            opening = open_process(
                self.programs(),
                self.store,
                offer=self.offer(concurrency=self._concurrency),
                strict=self._strict,
                schedules=tuple(self.schedules.values()),
                serving=False,
                worker_command=self._worker_command,
                on_undurable=self.choose_on_undurable("ignore"),
            )
            self._processes[loop] = create_detached_task(loop, opening, "holdfast-open")
        return await asyncio.shield(self._processes[loop])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        """Makes the application a worker in the block: it claims and runs every job that it has code for. Afterwards
        it holds nothing."""
        process = await self.host()
        try:
            await process.serve()
            yield process
        finally:
            self._processes.pop(asyncio.get_running_loop(), None)
            await process.close()

    def _warn_other_store(self) -> None:
        """Logs a warning if the environment names another store: a worker would use that one, and this process the
        application's own."""
        env_store = os.environ.get(STORE)
        if env_store and self._store is not None and address.parse(env_store) != address.parse(self._store):
            log.warning(
                "this App declares its store, which is used here; HOLDFAST_STORE names another one, which"
                " `holdfast worker` would use. Unset it, or leave store= out of the App."
            )

    def _worker_command(self, kind: str) -> str:
        """The command that starts a worker with the code of this application."""
        declared = self.agents.get(kind) or self.sessions.get(kind)
        name = getattr(declared, "__module__", "__main__")
        module = sys.modules.get("__main__" if name.startswith("holdfast.") else name)
        place = _place_of(module)
        names = {name: app for name, app in vars(module).items() if isinstance(app, App)} if module else {}
        if len({id(app) for app in names.values()}) > 1:
            place += "".join(f":{name}" for name, app in names.items() if app is self)
        command = ["holdfast", "worker", place]
        if (
            self._store is not None and address.parse(self._store).kind == "sqlite"
        ):  # other addresses may contain a password
            command += ["--store", self._store]
        return shlex.join(command)


def _check_on_undurable(value: str, name: str) -> OnUndurable:
    for choice in get_args(OnUndurable):
        if value == choice:
            return choice  # type: ignore[no-any-return]
    msg = f"{name}={value!r} is not known"
    raise InvalidSetting(msg, hint=f"Say one of {', '.join(map(repr, get_args(OnUndurable)))}.")


def _place_of(module: ModuleType | None) -> str:
    """The module as `holdfast worker` takes it."""
    file = getattr(module, "__file__", None)
    if module is None or (module.__name__ == "__main__" and file is None):
        return "YOUR_MODULE"
    if module.__name__ != "__main__":
        return module.__name__
    path = Path(file or "").resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


DEFAULT = App()
"""The application of `hf.agent`, `hf.tool`, `hf.step`, `hf.session`, `hf.schedule` and `hf.Assistant`."""

agent = DEFAULT.agent
tool = DEFAULT.tool
step = DEFAULT.step
session = DEFAULT.session
schedule = DEFAULT.schedule
Assistant = DEFAULT.assistant
