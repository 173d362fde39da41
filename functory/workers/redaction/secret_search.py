"""Finds the forms of secrets in a text, in time that grows with the text and not with the number of forms.

Of each form some short pieces, the seeds, are in a dictionary. One look for each character of the text finds those,
and what surrounds a seed decides. So a piece of a secret is found too, from ``PIECE`` characters on: a text may have
been cut, wrapped or printed line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from functory.workers.redaction import secret_forms

# Characters in sequence that are enough to recognise a secret.
PIECE = 16
_SEED = 8
# With this distance between seeds, every piece has one of them: 8 + 9 - 1 = 16.
_DISTANCE = PIECE - _SEED + 1
# A form shorter than a seed counts where no letter or digit is beside it: "prod" is not in "product".
_WORD = 4
# A longer form has fewer seeds, and its pieces must be longer to be found: a secret may have 64 KiB.
_LONG = 8192
# Places of one seed. Only a secret that repeats itself has more of them, and these add nothing.
_MAX_PLACES = 64


class Found(NamedTuple):
    """A place of a secret in a text: from ``start`` to before ``end``, and the secret's name."""

    start: int
    end: int
    name: str


class _Place(NamedTuple):
    """A seed in a form. Where ``whole``, nothing less than the form counts."""

    form: str
    offset: int
    whole: bool
    name: str


class SecretSearch:
    """The forms of some secrets, by name; it does not change."""

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        self._seeds: dict[str, list[_Place]] = {}
        self._words: dict[str, list[_Place]] = {}
        self._beginnings: set[str] = set()
        self.numbers: dict[str, str] = {}
        for name, value in secrets:
            self.numbers |= dict.fromkeys(secret_forms.numbers(value), name)
            for form, whole in secret_forms.all_forms(value):
                self._add(form, whole, name)

    def find(self, text: str) -> list[Found]:
        """All places, in their order; they do not overlap."""
        found: list[Found] = []
        seeds = self._seeds
        start, end = 0, 0
        for at in (
            [at for at in range(len(text) - _SEED + 1) if text[at : at + _SEED] in seeds] if seeds else ()
        ):
            # What goes on behind the end of the last place has a seed among its last characters.
            if at + PIECE <= end:
                continue
            for place in seeds[text[at : at + _SEED]]:
                if at < end and not _is_longer(text, start, end, at, place):
                    continue
                one = _extend(text, at, place)
                if one is not None:
                    start, end = min(start, one.start) if at < end else one.start, max(end, one.end)
                    found.append(one)
        words = self._words
        if words:
            for at in [at for at in range(len(text) - _WORD + 1) if text[at : at + _WORD] in words]:
                for place in words[text[at : at + _WORD]]:
                    end = at + len(place.form)
                    if (
                        text.startswith(place.form, at)
                        and not text[at - 1 : at].isalnum()
                        and not text[end : end + 1].isalnum()
                    ):
                        found.append(Found(at, end, place.name))
                        break
        return _joined(found)

    def unfinished(self, text: str) -> int:
        """Characters at the end of ``text`` (fewer than ``PIECE``) with which a secret may begin."""
        for length in range(min(PIECE - 1, len(text)), 0, -1):
            if text[-length:] in self._beginnings:
                return length
        return 0

    def _add(self, form: str, whole: bool, name: str) -> None:
        if len(form) < _WORD:
            return
        lines = [0, *(found.end() for found in re.finditer("\n+", form) if not whole)]
        for start in lines:
            self._beginnings.update(form[start : start + length] for length in range(1, PIECE))
        if len(form) < _SEED:
            self._words.setdefault(form[:_WORD], []).append(_Place(form, 0, True, name))
            return
        whole = whole or len(form) < PIECE
        distance = _DISTANCE if len(form) <= _LONG else 8 * _DISTANCE
        for offset in range(0, 1 if whole else len(form) - _SEED + 1, distance):
            seed = form[offset : offset + _SEED]
            places = self._seeds.setdefault(seed, [])
            # Blanks and rulers are in every text: they say nothing about a secret.
            if len(places) < _MAX_PLACES and (offset == 0 or len(set(seed)) > 2):
                places.append(_Place(form, offset, whole, name))
            elif not places:
                del self._seeds[seed]


def _extend(text: str, at: int, place: _Place) -> Found | None:
    """The piece of a form around a seed at ``at`` in a text; None if it is too short to count."""
    form, offset, whole, name = place
    start = at - offset
    if start >= 0 and text.startswith(form, start):
        return Found(start, start + len(form), name)
    if whole:
        return None
    before = _most_equal(lambda n: text[at - n : at] == form[offset - n : offset], min(at, offset))
    after = _most_equal(
        lambda n: text[at : at + n] == form[offset : offset + n], min(len(text) - at, len(form) - offset)
    )
    return Found(at - before, at + after, name) if before + after >= PIECE else None


def _is_longer(text: str, start: int, end: int, at: int, place: _Place) -> bool:
    """True when a form has also what is before or behind a place in the text that is found already."""
    form, offset, before = place.form, place.offset, at - start + 1
    return (len(text) > end and form.startswith(text[at : end + 1], offset)) or (
        start > 0 and before <= offset and form.startswith(text[start - 1 : at], offset - before)
    )


def _most_equal(equal: Callable[[int], bool], most: int) -> int:
    """The largest number up to ``most`` that is ``equal``: 1, 2, 4 … and then by halving. The comparisons run in C."""
    known, limit = 0, 1
    while limit <= most and equal(limit):
        known, limit = limit, 2 * limit
    limit = min(limit, most + 1)
    while limit - known > 1:
        middle = (known + limit) // 2
        known, limit = (middle, limit) if equal(middle) else (known, middle)
    return known


def _joined(found: list[Found]) -> list[Found]:
    """Places in their order; those that touch or overlap are one."""
    joined: list[Found] = []
    for one in sorted(found):
        if joined and one.start <= joined[-1].end:
            last = joined[-1]
            joined[-1] = Found(last.start, max(last.end, one.end), last.name)
        else:
            joined.append(one)
    return joined
