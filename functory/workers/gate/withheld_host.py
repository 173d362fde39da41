"""The host of a test: it answers from what the test says, and withholds all else. Nothing that it does has an effect.

Code that is refused something may hide that. So the host remembers what it has withheld, and the outcome of such a test
is unknown, whatever the code returned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functory.engine.errors import Conflict, Refused
from functory.engine.serialization import json_codec
from functory.workers.sandbox.protocol.host import UnfilteredOutput

MAX_NAMED = 20


class WithheldHost:
    """Answers the requests of one test. ``answers`` are those of :mod:`functory.engine.releases.version_tests`."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._calls = {name: list(values) for name, values in answers.get("calls", {}).items()}
        self._models = list(answers.get("models", []))
        self._children: list[Any] = []
        self._events = 0
        self._state: dict[str, tuple[Any, int]] = {}
        self.withheld: list[str] = []
        """What the code asked for and did not get, each once."""

    def output_filter(self) -> UnfilteredOutput:
        """Tests have no secrets."""
        return UnfilteredOutput()

    def call(
        self,
        name: str,
        version: int | None,
        input: dict[str, Any] | None,  # noqa: A002
        args: list[Any],
        kwargs: dict[str, Any],
        durable: bool = False,
        abandon: bool = False,
    ) -> Any:
        """The next result that the test has for this function."""
        with self._lock:
            values = self._calls.get(name)
            if values:
                return values.pop(0)
        raise self._withhold(f"a call of {name}", f'answers={{"calls": {{"{name[:80]}": [...]}}}}')

    def submit(
        self,
        name: str,
        version: int | None,
        args: list[Any],
        kwargs: dict[str, Any],
        abandon: bool = False,
    ) -> str:
        """The id of a child whose result is the next one that the test has for this function."""
        value = self.call(name, version, None, args, kwargs)
        with self._lock:
            self._children.append(value)
            return _id(len(self._children))

    def gather(self, ids: list[str], timeout: float | None) -> Iterable[dict[str, Any]]:
        """The results of children that :meth:`submit` gave."""
        known = {_id(number): value for number, value in enumerate(self._children, 1)}
        for id_ in ids:
            if id_ not in known:
                raise Refused(f"{id_[:80]} is no child of this test")
            yield {"ok": True, "value": known[id_]}

    def emit(self, type: str, data: Any, subject: str | None) -> str:  # noqa: A002
        """An id. The event is stored nowhere."""
        json_codec.encode(data)
        with self._lock:
            self._events += 1
            return _id(self._events)

    def emit_many(self, events: Sequence[tuple[str, Any, str | None]]) -> list[str]:
        """Ids. The events are stored nowhere."""
        return [self.emit(*one) for one in events]

    def secret(self, name: str) -> str:
        """Withheld: a test never has a secret, and a false one would test nothing."""
        raise self._withhold(f"the secret {name}")

    def state_get(self, key: str) -> tuple[Any, int] | None:
        """What this test has stored; a test begins with an empty state."""
        with self._lock:
            return self._state.get(key)

    def state_set(self, key: str, value: Any, expected_version: int | None) -> int:
        """Store a value until the end of the test."""
        with self._lock:
            version = self._state.get(key, (None, 0))[1]
            if expected_version is not None and expected_version != version:
                raise Conflict(f"the state {key[:80]} has version {version}", f"expected {expected_version}")
            self._state[key] = value, version + 1
            return version + 1

    def state_delete(self, key: str) -> None:
        """Forget a key until the end of the test."""
        with self._lock:
            self._state.pop(key, None)

    def functions(self, op: str, arguments: dict[str, Any]) -> Any:
        """Withheld: the functions of the database are not those of the test."""
        raise self._withhold(f"functions.{op}")

    def llm(self, op: str, arguments: dict[str, Any]) -> Any:
        """The next answer that the test has for a model; a text, or an object as ``llm()`` returns it."""
        with self._lock:
            if op == "chat" and self._models:
                given = self._models.pop(0)
                answer = given if isinstance(given, dict) else {"text": given}
                return {
                    "text": "",
                    "tool_calls": [],
                    "usage": {},
                    "cost_usd": 0.0,
                    "replayed": True,
                    **answer,
                }
        raise self._withhold(f"llm.{op}", 'answers={"models": ["..."]}')

    def note(self, what: str) -> None:
        """Remember that something was withheld."""
        with self._lock:
            if what not in self.withheld and len(self.withheld) < MAX_NAMED:
                self.withheld.append(what)

    def memory(self, op: str, arguments: dict[str, Any]) -> Any:
        """Withheld: what a test remembers, others would read."""
        raise self._withhold(f"memory.{op}")

    def tools(self, op: str, arguments: dict[str, Any]) -> Any:
        """Withheld, as :meth:`functions` is."""
        raise self._withhold(f"tools.{op}")

    def _withhold(self, what: str, try_: str = "") -> Refused:
        what = what[:200]
        self.note(what)
        return Refused(f"a test does not get {what}", "tests have no effect and no right", try_)


def _id(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"
