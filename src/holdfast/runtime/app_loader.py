"""App loader: loads an application from a file or a module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from holdfast.errors import InvalidSetting, NotFound
from holdfast.runtime.app import DEFAULT, App


def load(where: str) -> App:
    """The application in `app.py`, `package.module` or either with `:name`. Without a name it is the module's only
    App; for a module without one it is the default App, on which `hf.agent` declares agents."""
    place, _, name = where.partition(":")
    module = _import_module(place)
    if name:
        app = getattr(module, name, None)
        if not isinstance(app, App):
            msg = f"{place} has no application called {name!r}"
            raise NotFound(msg, hint=f"Write `{name} = hf.App()` in it, or leave `:{name}` out.")
        return app
    apps = {id(value): value for value in vars(module).values() if isinstance(value, App)}
    if len(apps) > 1:
        msg = f"{place} has {len(apps)} applications"
        raise InvalidSetting(msg, hint=f"Say which one: {place}:NAME")
    return next(iter(apps.values()), DEFAULT)


def _import_module(place: str) -> ModuleType:
    if place.endswith(".py"):
        return _import_file(Path(place))
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{place}.".startswith(f"{error.name}."):
            raise  # the module exists and imports one that does not
        msg = f"there is no module {place!r}"
        raise NotFound(
            msg, hint="Give a file (app.py) or a module that Python can import from here."
        ) from None


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        msg = f"there is no file {path}"
        raise NotFound(msg, hint="Give the file that declares your agents.")
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path):
            return module  # imported once: agents are declared once
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None, f"{path} ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # as when Python runs the file: it may import modules beside it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module
