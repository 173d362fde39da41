"""What code of functions imports, in a process that is no execution: a unit test, a script, a prompt.

    from functory import log, secret, state

An execution gets these names from its worker (:mod:`functory.workers.sandbox.guest.functory_module`). Here they work
as far as they can without one: ``log`` and ``progress`` write to stderr, ``state`` is kept in this process, ``memory``,
``tools`` and ``functions`` are those of the process's engine. What only an execution has (``execution``, ``secret``,
``llm``) raises :class:`Unavailable`, which says what to do in a test. Importing a name opens no engine.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from functory.engine.errors import Conflict, Invalid, Unavailable
from functory.engine.serialization.python_values import NotSerializable, TooLarge
from functory.workers.sandbox.guest.functory_module import (
    EngineClient,
    Execution,
    LanguageModels,
    Logger,
    State,
)
from functory.workers.sandbox.guest.json_values import encode
from functory.workers.sandbox.protocol.frames import GetSecret, Request, StateDelete, StateGet, StateSet

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.agents.memory import Memory
    from functory.engine.executions.runs.tool_search import Tools
    from functory.engine.functions.registry import Functions

# Most bytes of a value of `state`, as in the engine (functory.engine.functions.state), which is not loaded here.
STATE_BYTES = 65_536


def _unavailable(what: str, why: str, name: str) -> Unavailable:
    return Unavailable(
        what, why, f'in a test, put a value in its place: monkeypatch.setattr(MODULE, "{name}", …)'
    )


class _NoExecution(Execution):
    """Stands in for the execution where there is none."""

    def __init__(self) -> None:
        """Nothing is known."""

    def __getattr__(self, name: str) -> Any:
        # Debuggers and test runners look for names of their own.
        if name.startswith("_"):
            raise AttributeError(name)
        raise _unavailable(
            f"execution.{name} has no value here",
            "this code runs outside of an execution: a test or a script has called it",
            "execution",
        )

    def __repr__(self) -> str:
        return "<no execution>"


class OutsideEngineClient(EngineClient):
    """Answers requests in this process. ``open_secret`` returns the value of a secret by its name, where a test has
    lent one.
    """

    def __init__(self) -> None:
        self.execution = _NoExecution()
        self.open_secret: Callable[[str], str] | None = None
        # The JSON of a value, and its version.
        self._values: dict[str, tuple[bytes, int]] = {}
        self._answers: dict[Any, Callable[..., Any]] = {
            GetSecret: self._secret,
            StateGet: self._state_value,
            StateSet: self._set_state,
            StateDelete: self._delete_state,
        }

    def log(self, level: str, text: str) -> None:
        sys.stderr.write(f"{level}: {text}\n")

    def request(self, build: Callable[..., Request], **fields: Any) -> Any:
        answer = self._answers.get(build)
        if answer is None:
            raise _unavailable(
                "no language model can be asked here",
                "a call belongs to an execution, whose tree has a budget",
                "llm",
            )
        return answer(**fields)

    async def request_async(self, build: Callable[..., Request], **fields: Any) -> Any:
        return self.request(build, **fields)

    def forget_state(self) -> None:
        """Delete all values of ``state``."""
        self._values.clear()

    def _secret(self, name: str) -> str:
        if self.open_secret is not None:
            return self.open_secret(name)
        raise _unavailable(
            f"the secret {name!r} has no value here",
            "only an execution of a function that declares it gets it, and this is no execution",
            "secret",
        )

    def _state_value(self, key: str) -> tuple[Any, int] | None:
        entry = self._values.get(_checked(key))
        return None if entry is None else (msgspec.msgpack.decode(entry[0]), entry[1])

    def _set_state(self, key: str, value: Any, expected_version: int | None) -> int:
        current = self._values.get(_checked(key), (b"", 0))[1]
        if expected_version is not None and expected_version != current:
            raise Conflict(
                f"state {key!r} was changed meanwhile",
                f"its version is {current}, not {expected_version}",
                "read it again",
            )
        try:
            data = encode(value, STATE_BYTES).data
        except TooLarge as error:
            raise Invalid(f"state value {key!r} is too large", str(error)) from None
        except NotSerializable as error:
            raise NotSerializable(f"value cannot be sent: {error}") from None
        self._values[key] = data, current + 1
        return current + 1

    def _delete_state(self, key: str) -> None:
        self._values.pop(_checked(key), None)


def _checked(key: Any) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= 255:
        raise Invalid("wrong state key", "it must be a string of 1 to 255 characters")
    return key


class _Service:
    """A service of the process's engine, which is opened at the first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        from functory import engine_of_process

        service = getattr(engine_of_process(), self._name, None)
        if service is None:
            raise Invalid(
                f"functory.{self._name} does not work over a server",
                "the HTTP API does not have it",
                "use it inside of a function, or where the database is",
            )
        found = getattr(service, attribute, None)
        if found is None:
            raise AttributeError(
                f"functory.{self._name} has no {attribute!r} outside of an execution; it has the names of the "
                f"service {self._name} of an engine"
            )
        return found

    def __repr__(self) -> str:
        return f"<{self._name} of the process's engine>"


_client = OutsideEngineClient()

state = State(_client)
log = Logger(_client)
llm = LanguageModels(_client)
execution: Execution = _client.execution
memory: Memory = _Service("memory")  # type: ignore[assignment]
tools: Tools = _Service("tools")  # type: ignore[assignment]
functions: Functions = _Service("functions")  # type: ignore[assignment]


def secret(name: str) -> str:
    """Return the value of a secret: with the fixture ``functory`` one of its engine, else raises
    :class:`Unavailable`.
    """
    return _client.request(GetSecret, name=name)


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Report the progress of the work, on stderr."""
    share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
    log(f"{share} {text}".rstrip(), level="progress")


async def acall(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """``functory.call`` for async code."""
    from functory import call

    return await asyncio.to_thread(call, name, *args, **kwargs)


@contextmanager
def lent(engine: Functory) -> Iterator[None]:
    """Inside of the block the functions of the package use ``engine``, a test's, and ``secret`` opens its secrets.
    ``state`` is empty at the begin and at the end.
    """
    from functory import use
    from functory.client import declarations

    # An engine of one test does not get what an imported module declares: it would be missing in the next test's.
    with declarations.set_aside():
        before = use(engine)
        _client.open_secret = lambda name: engine.secrets.open(name).get_secret_value()
        _client.forget_state()
        try:
            yield
        finally:
            use(before)
            _client.open_secret = None
            _client.forget_state()
