"""What the decorators of the package ``functory`` have declared before the engine of the process is open.

    import shop              # @register_function and register_trigger of shop.py: nothing is written
    functory.call("price")   # opens the engine, saves what shop.py declares, in its order, and runs

A declaration is checked as far as that needs no database, and is remembered. :func:`functory.engine_of_process` writes
all of them at the first use of the engine, :func:`functory.register` without any other use, and a ``Functory()`` of the
program's own, without settings, when it opens.
"""

from __future__ import annotations

import atexit
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

# This module is loaded with the package, also where nothing is declared: it imports what it needs in its functions.


class _Declaration(NamedTuple):
    """What ``save`` writes into an engine, and the place that declares it. ``module`` is the ``__name__`` there."""

    kind: str
    name: str
    file: str
    line: int
    module: str
    save: Callable[[Any], object]


_waiting: list[_Declaration] = []
# Held while declarations are written, so that a second thread does not start before they are.
_lock = threading.RLock()


class DeclaredTrigger(Mapping[str, Any]):
    """The row of a trigger that is declared. Reading it is a use of the engine: it is written first."""

    def __init__(self, name: str, write_all: Callable[[], None]) -> None:
        self.name = name
        self.row: Mapping[str, Any] | None = None
        self._write_all = write_all

    def _written(self) -> Mapping[str, Any]:
        if self.row is None:
            self._write_all()
        if self.row is None:
            from functory.engine.errors import Unavailable

            raise Unavailable(
                f"trigger {self.name} has no row yet",
                "the engine of a test is in use, and what modules declare is not written into that",
            )
        return self.row

    def __getitem__(self, key: str) -> Any:
        return self._written()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written())

    def __len__(self) -> int:
        return len(self._written())

    def __repr__(self) -> str:
        return f"<trigger {self.name}, declared>" if self.row is None else repr(self.row)


def waiting() -> bool:
    """Say whether something is declared and not written yet."""
    return bool(_waiting)


def has_function(name: str) -> bool:
    """Say whether a function of this name waits to be written."""
    return any((one.kind, one.name) == ("function", name) for one in _waiting)


def declare_function(target: Callable[..., Any], declared: Mapping[str, Any]) -> None:
    """Check and remember a decorated function. Its source is read now. Raises :class:`Invalid`."""
    from functory.engine.functions import decorated_function

    text, fields = decorated_function.text_and_fields(target, declared)
    name = decorated_function.check(text, fields)
    _remember("function", name, lambda engine: engine.save_decorated(target, text, fields))


def declare_trigger(
    name: str | None, fields: Mapping[str, Any], write_all: Callable[[], None]
) -> DeclaredTrigger:
    """Check and remember a trigger in either spelling. ``write_all`` writes it, with all others, when its row is read.
    Raises :class:`Invalid`.
    """
    from copy import deepcopy

    from functory.engine.flow_control.trigger_row import TriggerRow
    from functory.engine.names import made_trigger_name
    from functory.triggers import definition

    # A pattern may be changed by its owner before it is written.
    kept = deepcopy(dict(fields))
    given = {key: value for key, value in kept.items() if key not in ("shadow", "expected_version")}
    made = definition.parse(given)
    called = made_trigger_name(given) if name is None else name
    definition.compile_definition(TriggerRow("", called, 0, made))
    declared = DeclaredTrigger(called, write_all)

    def save(engine: Any) -> None:
        declared.row = engine.register_trigger(name, **kept)

    _remember("trigger", called, save)
    return declared


def write(engine: Any) -> None:
    """Write all that waits, in the order of its declaration. What fails does not stop the others and stays remembered:
    the error names the place of each, and the next use tries it again.
    """
    from functory.engine.errors import FunctoryError

    failed: list[tuple[_Declaration, Exception]] = []
    with _lock:
        for one in [*_waiting]:
            try:
                one.save(engine)
            except Exception as error:
                failed.append((one, error))
            else:
                _waiting.remove(one)
    if not failed:
        return
    first = failed[0][1]
    kind = type(first) if isinstance(first, FunctoryError) else FunctoryError
    raise kind(
        f"{len(failed)} of what is declared could not be saved",
        "\n".join(f"{one.file}, line {one.line}: {one.kind} {one.name}: {_reason(e)}" for one, e in failed),
        first.try_ if isinstance(first, FunctoryError) else "",
    ) from first


@contextmanager
def set_aside() -> Iterator[None]:
    """Inside of the block nothing waits that was declared before it."""
    with _lock:
        before = [*_waiting]
        _waiting.clear()
    try:
        yield
    finally:
        with _lock:
            _waiting[:0] = before


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


def _remember(kind: str, name: str, save: Callable[[Any], object]) -> None:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"] in (__name__, "functory"):
        frame = frame.f_back
    atexit.unregister(_warn_of_unwritten)
    atexit.register(_warn_of_unwritten)
    file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
    _waiting.append(_Declaration(kind, name, file, frame.f_lineno, module, save))


def _warn_of_unwritten() -> None:
    """Say at the end of a script that its declarations were not written; a module that is imported may be unused."""
    left = [one for one in _waiting if one.module == "__main__"]
    if left:
        what = ", ".join(f"{one.kind} {one.name}" for one in left)
        warnings.warn_explicit(
            f"declared, but not saved: {what}. The first use of the engine of this process saves it. "
            "Without one, call functory.register(), or functory.use(engine) for an engine with settings of its own",
            UserWarning,
            left[0].file,
            left[0].line,
        )
