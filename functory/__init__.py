"""Functory: an event-driven engine for Python functions that live in a database.

    from functory import call, emit, register_function, register_trigger

The module-level names use one engine per process, opened at their first use (see
:func:`functory.engine_of_process`). What the decorators declare before that is written then
(:func:`functory.register`). Any stored function can also be called as an attribute:
``functory.parse(text)`` runs it as an execution. Importing this module is cheap; everything heavy
is loaded when it is needed.

Inside a stored function the same names mean the running execution: the child process has a module
of its own under this name. Its other names (``state``, ``secret``, ``log`` …) can be imported everywhere, so that a
function's file can be tested (:mod:`functory.in_function`).
"""

from __future__ import annotations

import atexit
import importlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from functory._version import __version__ as __version__
from functory.client import declarations

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.client.handle import Handle
    from functory.client.handle import Handle as Submitted
    from functory.engine.errors import (
        BudgetExceeded,
        Conflict,
        ExecutionFailed,
        FunctoryError,
        Invalid,
        ModelFailed,
        NotFound,
        Refused,
        Stale,
        Unavailable,
        WaitTimeout,
    )
    from functory.engine.errors import ExecutionFailed as CallFailed
    from functory.engine.serialization.python_values import Naive as Naive
    from functory.engine.serialization.python_values import NotSerializable
    from functory.engine.settings import Settings
    from functory.in_function import (
        acall,
        execution,
        functions,
        llm,
        log,
        memory,
        progress,
        secret,
        state,
        tools,
    )
    from functory.remote.client import RemoteFunctory
    from functory.workers.sandbox.guest import step as step
    from functory.workers.sandbox.guest.retries import Final, RetryAfter

__all__ = [
    "BudgetExceeded",
    "CallFailed",
    "Conflict",
    "ExecutionFailed",
    "Final",
    "Functory",
    "FunctoryError",
    "Handle",
    "Invalid",
    "ModelFailed",
    "Naive",
    "NotFound",
    "NotSerializable",
    "Refused",
    "RetryAfter",
    "Settings",
    "Stale",
    "Submitted",
    "Unavailable",
    "WaitTimeout",
    "__version__",
    "acall",
    "call",
    "close",
    "emit",
    "emit_many",
    "engine_of_process",
    "execution",
    "functions",
    "gather",
    "llm",
    "log",
    "memory",
    "progress",
    "register",
    "register_function",
    "register_trigger",
    "secret",
    "state",
    "step",
    "submit",
    "submit_many",
    "tools",
    "use",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_default_engine: Functory | RemoteFunctory | None = None
_lock = threading.Lock()

# Public names that other modules define.
_LAZY = {
    "Functory": "functory.client.functory",
    "Handle": "functory.client.handle",
    "Final": "functory.workers.sandbox.guest.retries",
    "RetryAfter": "functory.workers.sandbox.guest.retries",
    "Naive": "functory.engine.serialization.python_values",
    "Settings": "functory.engine.settings",
    **dict.fromkeys(
        (
            "FunctoryError",
            "Invalid",
            "NotFound",
            "Refused",
            "BudgetExceeded",
            "ModelFailed",
            "Conflict",
            "Unavailable",
            "Stale",
            "ExecutionFailed",
            "WaitTimeout",
        ),
        "functory.engine.errors",
    ),
    "NotSerializable": "functory.engine.serialization.python_values",
    # What code of functions imports; inside of an execution a module of its own has them.
    **dict.fromkeys(
        (
            "acall",
            "execution",
            "functions",
            "llm",
            "log",
            "memory",
            "progress",
            "secret",
            "state",
            "tools",
        ),
        "functory.in_function",
    ),
}

# What a class is called inside of an execution.
_ALIASES = {"CallFailed": "ExecutionFailed", "Submitted": "Handle"}


def engine_of_process(*, create: bool = True) -> Functory | RemoteFunctory:
    """The engine that the module-level functions use: made from the settings at its first use.

    With ``FUNCTORY_URL``, or ``url`` in ``functory.toml``, it is a client of that server.

    What was declared before is written first; raises when that fails (:func:`functory.client.declarations.write`).
    Without ``create`` it raises :class:`NotFound` where that would make a database.
    """
    global _default_engine
    with _lock:
        if _default_engine is None:
            from functory.remote import address

            if address.url_of_process() is None:
                from functory.client.functory import Functory

                _default_engine = Functory(create=create)
            else:
                from functory.remote.client import RemoteFunctory

                _default_engine = RemoteFunctory()
            atexit.register(close)
        engine = _default_engine
    if declarations.waiting():
        declarations.write(engine)
    return engine


def use(engine: Functory | RemoteFunctory | None) -> Functory | RemoteFunctory | None:
    """Let the module-level functions use ``engine`` (None: the default one again). Returns what they used before.

    What was declared before any use of an engine is written into it.
    """
    global _default_engine
    with _lock:
        before, _default_engine = _default_engine, engine
    if engine is not None and declarations.waiting():
        declarations.write(engine)
    return before


def register() -> None:
    """Save now what ``register_function`` and ``register_trigger`` have declared, in the order of its declaration.

    The first use of the engine of the process does the same. Raises when something cannot be saved, with the file and
    line that declares it; the others are saved.
    """
    if declarations.waiting():
        engine_of_process()


def close() -> None:
    """Stop and close the process's engine, if it was opened."""
    global _default_engine
    with _lock:
        engine, _default_engine = _default_engine, None
    if engine is not None:
        engine.close()


@overload
def register_function(function: Callable[_P, _R], /, **declared: Any) -> Callable[_P, _R]: ...


@overload
def register_function(**declared: Any) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...


def register_function(function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Decorator: save a function as an immutable version; see :meth:`Functory.register_function`.

    While the engine of the process is not open, the function is checked and remembered (:func:`register`).
    """
    if _is_remembered():

        def declare(target: Callable[..., Any]) -> Callable[..., Any]:
            declarations.declare_function(target, declared)
            return target

        return declare(function) if function is not None else declare
    engine = _verbs()
    if function is None:
        return engine.register_function(**declared)
    return engine.register_function(function, **declared)


def register_trigger(name: str | None = None, **fields: Any) -> Any:
    """Save a trigger in either spelling; see :meth:`Functory.register_trigger`. Returns its row.

    While the engine of the process is not open, the trigger is checked and remembered (:func:`register`). Reading the
    returned row saves it then.
    """
    if _is_remembered():
        return declarations.declare_trigger(name, fields, register)
    return _verbs().register_trigger(name, **fields)


def call(function: str, /, *args: Any, **kwargs: Any) -> Any:
    """Run a stored function as an execution and return its result."""
    return _verbs().call(function, *args, **kwargs)


def submit(function: str, /, *args: Any, **kwargs: Any) -> Handle:
    """Start a stored function; ``.result()`` waits for it."""
    return _verbs().submit(function, *args, **kwargs)


def submit_many(
    function: str,
    /,
    inputs: Iterable[Mapping[str, Any]],
    *,
    delay: float = 0.0,
    idempotency_key: str | None = None,
) -> list[Handle]:
    """Start a stored function once for each input object, all of them or none."""
    return _verbs().submit_many(function, inputs, delay=delay, idempotency_key=idempotency_key)


def gather(*handles: Handle, return_exceptions: bool = False, timeout: float | None = None) -> list[Any]:
    """The results of several started functions, in their order, after at most ``timeout`` seconds.

    With ``return_exceptions`` an :class:`ExecutionFailed` is in the place of the result of one that has failed.
    """
    from functory.engine.errors import ExecutionFailed

    def end(handle: Handle) -> Any:
        try:
            return handle.result(timeout)
        except ExecutionFailed as error:
            return error

    if return_exceptions:
        return [end(handle) for handle in handles]
    return _verbs().gather(handles, timeout)


def emit(type_: str, data: Any = None, *, subject: str | None = None) -> str:
    """Write one event; returns its id."""
    return _verbs().emit(type_, data, subject=subject)


def emit_many(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Write many events, all of them or none; returns their ids."""
    return _verbs().emit_many(events)


def _is_remembered() -> bool:
    """Say whether a declaration waits for the first use of the engine. A server gets it at once."""
    from functory.remote import address

    return _default_engine is None and address.url_of_process() is None


def _verbs() -> Any:
    """What both kinds of engine offer under the same names."""
    return engine_of_process()


def __getattr__(name: str) -> Any:
    if name == "step":
        return importlib.import_module("functory.workers.sandbox.guest.step")
    name = _ALIASES.get(name, name)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    from importlib.util import find_spec  # here: the zygote, which imports this package too, does without

    # `from functory import cli` asks for the attribute first: that must not open an engine.
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(name)
    from functory.engine.errors import NotFound

    try:
        engine = engine_of_process(create=declarations.has_function(name))
        engine.functions.get(name)
    except NotFound:
        raise AttributeError(_no_such_attribute(name)) from None

    def run(*args: Any, **kwargs: Any) -> Any:
        return engine.call(name, *args, **kwargs)

    run.__name__ = name
    return run


def _no_such_attribute(name: str) -> str:
    """Say that there is no such attribute, and which one may be meant."""
    import difflib

    stored = _stored_names()
    near = difflib.get_close_matches(name, [*__all__, *stored], 1)
    return f"functory has no attribute {name!r}, and no stored function has that name" + (
        f"; did you mean {near[0]}?" if near else ""
    )


def _stored_names() -> list[str]:
    if _default_engine is None:
        return []
    return [row["name"] if isinstance(row, dict) else row.name for row in _default_engine.functions.list()]
