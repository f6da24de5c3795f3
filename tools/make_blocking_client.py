"""Write `src/holdfast/client/blocking_client.py` from `Client`: the same methods, for code that does not await.

python -m tools.make_blocking_client            write it
python -m tools.make_blocking_client --check    fail if it is not what `Client` says
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src/holdfast/client/client.py"
TARGET: Final = ROOT / "src/holdfast/client/blocking_client.py"
WRITTEN_BY_HAND: Final = frozenset({"close"})

HEAD: Final = '''"""Blocking client: `Client` for code that does not await. Calls run on a loop in a thread of its own.

    with BlockingClient.over_http("http://127.0.0.1:8080") as client:
        job = client.submit("report", {"month": "May"})
        print(client.result(job.job_id, timeout_s=60).output)

This file is written by `python -m tools.make_blocking_client`; change `client/client.py` instead.
"""

# ruff: noqa: A002 - `input` is the word for it everywhere else

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from types import TracebackType
from typing import Self

from holdfast.client.client import Client
from holdfast.client.http import RemoteClient
from holdfast.client.in_process import EmbeddedClient
from holdfast.model.ids import RandomIds
from holdfast.runtime import open_store
from holdfast.store.contract import Store
'''

BASE: Final = '''
async def _next(items: AsyncGenerator[R, None]) -> R:
    return await anext(items)


class BlockingClient:
    """See `Client`: the methods, their results and their errors are the same. Close it when done, or use it in `with`.
    It may be used by several threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-client", daemon=True)
        self._thread.start()
        self._client: Client
        self._store: Store | None = None

    @classmethod
    def over_http(cls, url: str, *, key: str | None = None) -> Self:
        """A client of the server at this URL."""
        made = cls()

        async def connect() -> Client:
            return RemoteClient(url, key=key)

        made._client = made._open(connect())
        return made

    @classmethod
    def over_store(cls, address: str) -> Self:
        """A client over the store at this address, which is opened for it."""
        made = cls()

        async def connect() -> Client:
            made._store = await open_store(address)
            return EmbeddedClient(made._store, made._store.clock, RandomIds())

        made._client = made._open(connect())
        return made

    def _open(self, connecting: Coroutine[Any, Any, Client]) -> Client:
        try:
            return self._run(connecting)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection or the store, and end the thread."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        if self._store is not None:
            self._run(self._store.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, call: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()
'''


def generate() -> str:
    """The module, formatted."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    imports = [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__"
    ]
    variables = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
    (client,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Client")
    methods = [
        _format_method(node)
        for node in client.body
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and node.name not in WRITTEN_BY_HAND
    ]
    same = "from holdfast.client.client import SAME"
    source = "\n".join([HEAD, same, *imports, *variables, BASE, *methods])
    return _run_ruff("format", _run_ruff("check", source))


def _format_method(node: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    arguments = node.args
    names = [one.arg for one in arguments.args[1:]]
    passed = [*names, *(f"{one.arg}={one.arg}" for one in arguments.kwonlyargs)]
    call = f"self._client.{node.name}({', '.join(passed)})"
    assert node.returns is not None
    returns = ast.unparse(node.returns)
    if isinstance(node, ast.AsyncFunctionDef):
        body = f"        return self._run({call})"
    else:  # an async generator: each of its items is one call
        returns = returns.replace("AsyncGenerator[", "Iterator[").removesuffix(", None]") + "]"
        body = (
            f"        items = {call}\n"
            "        try:\n"
            "            while True:\n"
            "                try:\n"
            "                    yield self._run(_next(items))\n"
            "                except StopAsyncIteration:\n"
            "                    return\n"
            "        finally:\n"
            "            self._run(items.aclose())"
        )
    doc = ast.get_docstring(node, clean=True) or ""
    lines = "\n".join(f"        {line}" if line else "" for line in doc.splitlines()).strip()
    return f'\n    def {node.name}({ast.unparse(arguments)}) -> {returns}:\n        """{lines}"""\n{body}\n'


def _run_ruff(command: str, source: str) -> str:
    options = ["--fix", "--quiet", "--select", "I,F401,F811", "--exit-zero"] if command == "check" else []
    run = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(run, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main() -> int:
    source = generate()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(source, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == source:
        return 0
    print(f"{TARGET.relative_to(ROOT)} is not what Client says: python -m tools.make_blocking_client")
    return 1


if __name__ == "__main__":
    sys.exit(main())
