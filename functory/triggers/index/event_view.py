"""Views of one event while it is matched, and a cache of answers for values that come again.

``EventView`` maps paths to ``Answers``, which map requirements to whether they hold; both compute an entry when it is
first needed. Members of the event that no candidate names are never read. Most paths that separate few events have few
values (types, states, regions), so their answers are kept from event to event (``AnswerCache``): a repeated test is one
dictionary access, whatever the requirement is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functory.triggers.patterns.flatten import FALSE, TRUE, FlatEvent
from functory.triggers.patterns.paths import Path
from functory.triggers.patterns.pattern import Requirement
from functory.triggers.patterns.predicates import MAX_SAFE_INTEGER

MISSING = object()

# Above this number, names are checked one by one and not remembered: an attacker may invent new ones.
MAX_NAMES = 20_000
# Bounds of AnswerCache: values a path, characters a text, and answers in all (about 100 bytes each).
MAX_VALUES = 1000
MAX_CHARACTERS = 200
MAX_ANSWERS = 100_000


class NeedsFlattening(Exception):
    """The event must be flattened: it has names with dots, nested arrays, or types that JSON parsers do not make."""


class MemberNames:
    """Member names seen so far that hold no dot: one set operation clears an object of them."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: set[str] = set()

    def check(self, members: Iterable[Any]) -> None:
        """Raise NeedsFlattening if a name holds a dot (it may be a path of its own) or is not text."""
        for name in members:
            if type(name) is not str or "." in name:
                raise NeedsFlattening
        if len(self.known) < MAX_NAMES:
            self.known.update(members)


def scalars(array: list[Any]) -> list[Any] | None:
    """Return the values of an array, None for an empty one. Raises NeedsFlattening when elements are not scalars."""
    return [_scalar(value) for value in array] or None


def _scalar(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is float or value is None:
        return value
    if kind is bool:
        return TRUE if value else FALSE
    raise NeedsFlattening


class Answers(dict[Requirement, bool]):
    """Requirement of one path to whether it holds for the one value there."""

    __slots__ = ("value",)

    def __missing__(self, requirement: Requirement) -> bool:
        answer = self[requirement] = requirement.test(self.value)
        return answer


class _CachedAnswers(Answers):
    """Answers that stay for the next event with this value."""

    __slots__ = ("recall",)

    def __missing__(self, requirement: Requirement) -> bool:
        answer = self[requirement] = requirement.test(self.value)
        self.recall.count()
        return answer


class _Several(Answers):
    """Answers for a list of values. ``open``: in the chosen element of an array there may be none."""

    __slots__ = ("open",)

    def __missing__(self, requirement: Requirement) -> bool:
        answer = self[requirement] = requirement.any_matches(self.value) or (
            self.open and requirement.or_absent
        )
        return answer


class _Absent(Answers):
    """Answers for a path without a value."""

    __slots__ = ()

    def __missing__(self, requirement: Requirement) -> bool:
        return requirement.or_absent


ABSENT_ANSWERS = _Absent()


def _several(values: list[Any], *, open_: bool) -> Answers:
    answers = _Several()
    answers.value, answers.open = values, open_
    return answers


class AnswerCache:
    """Answers kept for values that come again: up to MAX_VALUES a path and MAX_ANSWERS in all.

    A path with more values than that is one whose values do not come again; it has one ``Answers`` that is
    used anew for each event.
    """

    __slots__ = ("_answers", "_paths", "_various")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self._answers = 0
        self._paths: dict[Path, dict[Any, Answers]] = {}
        self._various: dict[Path, Answers] = {}

    def count(self) -> None:
        """Note one more answer."""
        self._answers += 1
        if self._answers > MAX_ANSWERS:
            self.clear()

    def answers_for(self, path: Path, value: Any) -> Answers:
        """Return the answers for one value (no list) of a path, good until the next event."""
        answers = self._various.get(path)
        if answers is not None:
            answers.clear()
            answers.value = value
            return answers
        known = self._paths.get(path)
        if known is None:
            known = self._paths[path] = {}
        answers = known.get(value)
        # An integer that no double holds may equal one that a float holds, and is answered differently.
        if answers is not None and (type(value) is not int or -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER):
            return answers
        return self._keep(path, value, known)

    def _keep(self, path: Path, value: Any, known: dict[Any, Answers]) -> Answers:
        kind = type(value)
        if (kind is str and len(value) > MAX_CHARACTERS) or (
            kind is int and not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
        ):
            answers = Answers()
        elif len(known) >= MAX_VALUES:
            del self._paths[path]
            answers = self._various[path] = Answers()
        else:
            answers = known[value] = _CachedAnswers()
            answers.recall = self
        answers.value = value
        return answers


class EventView(dict[Path, Answers]):
    """Path to the answers for what lies there, of an event that is not flattened.

    ``objects``: the event itself under ROOT, and any others that were come across.
    """

    __slots__ = ("_cache", "_names", "_objects")

    def __init__(
        self, objects: dict[Path | None, dict[str, Any] | None], names: MemberNames, recall: AnswerCache
    ) -> None:
        self._objects = objects
        self._names = names
        self._cache = recall

    def __missing__(self, path: Path) -> Answers:
        holder = self._objects.get(path.parent)
        if holder is None:
            holder = self._object(path.parent)
        value = MISSING if holder is None else holder.get(path.name, MISSING)
        kind = type(value)
        if kind is str or kind is int or kind is float:
            answers = self._cache.answers_for(path, value)
        elif value is MISSING or kind is dict:
            answers = ABSENT_ANSWERS
        elif kind is list:
            values = scalars(value)  # type: ignore[arg-type]
            answers = ABSENT_ANSWERS if values is None else _several(values, open_=False)
        else:
            answers = self._cache.answers_for(path, _scalar(value))
        self[path] = answers
        return answers

    def _object(self, path: Path | None) -> dict[str, Any] | None:
        """Return the object at a path, None when there is none."""
        assert path is not None  # only ROOT has no parent, and it is known from the start
        found = self._objects.get(path, MISSING)
        if found is not MISSING:
            return found  # type: ignore[return-value]
        holder = self._object(path.parent)
        value = None if holder is None else holder.get(path.name)
        if type(value) is dict:
            if not self._names.known.issuperset(value):
                self._names.check(value)
        else:
            if type(value) is list:
                scalars(value)
            elif value is not None:
                _scalar(value)
            value = None
        self._objects[path] = value
        return value


class FlatEventView(dict[Path, Answers]):
    """Path to the answers for its values, of a flattened event."""

    __slots__ = ("_flat",)

    def __init__(self, flat: FlatEvent) -> None:
        self._flat = flat

    def __missing__(self, path: Path) -> Answers:
        values = self._flat.values.get(path.text)
        found = (
            ABSENT_ANSWERS if values is None else _several(values, open_=path.text in self._flat.in_arrays)
        )
        self[path] = found
        return found
