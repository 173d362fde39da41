"""Ranking of texts: by the words of a query, and by several rankings together. Pure, and the same on each machine.

    ranking.by_words("late invoices", [("a", "An invoice was late"), ("b", "Tea is hot")])  # [("a", 1.2)]

Words are scored with BM25 (S. Robertson, H. Zaragoza: The Probabilistic Relevance Framework, 2009). Rankings are joined
with reciprocal rank fusion (G. Cormack, C. Clarke, S. Büttcher, 2009), which needs no scores that can be compared.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

K = TypeVar("K", bound=str)
Ranked = list[tuple[K, float]]

# BM25: how fast further occurrences of a word count less, and how much the length of a text matters. The usual values.
TERM_SATURATION, LENGTH_WEIGHT = 1.2, 0.75
# Reciprocal rank fusion: the higher, the less the first ranks stand out. The value of the authors.
RANK_OFFSET = 60
# Words of a query; the rest of a longer one is not looked at.
MAX_QUERY_WORDS = 64
# A memory of this age counts half as much for its age.
HALF_LIFE = timedelta(days=30)

# Scripts that are written without spaces: each character is a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words(text: str) -> list[str]:
    """Return the words of a text: in lower case, without the s of a plural, with the parts of ``snake_case`` and
    ``camelCase`` names apart.
    """
    return [_stem(word) for word in _WORD.findall(_HUMP.sub(" ", text).casefold())]


def by_words(query: str, texts: Iterable[tuple[K, str]]) -> Ranked[K]:
    """Return the keys of the texts that have a word of the query, with their scores, best first. Of two with the same
    score, that with the higher key comes first: ids grow, so that is the newer one.
    """
    wanted = list(dict.fromkeys(words(query)))[:MAX_QUERY_WORDS]
    places = {word: place for place, word in enumerate(wanted)}
    found: list[tuple[K, int, Counter[int]]] = []
    holders: Counter[int] = Counter()
    count = length = 0
    for key, text in texts:
        own = words(text)
        count, length = count + 1, length + len(own)
        hits = Counter(places[word] for word in own if word in places)
        if hits:
            found.append((key, len(own), hits))
            holders.update(hits.keys())
    rarity = {place: math.log1p((count - holder + 0.5) / (holder + 0.5)) for place, holder in holders.items()}
    mean = length / count if count else 0.0
    ranked = [(key, _score(hits, own, mean, rarity)) for key, own, hits in found]
    return sorted(ranked, key=lambda item: (item[1], item[0]), reverse=True)


def fused(*rankings: Sequence[tuple[K, float]]) -> Ranked[K]:
    """Return the keys of all rankings, those first that stand high in many of them, each with its score."""
    scores: dict[K, float] = {}
    for ranking in rankings:
        for rank, (key, _) in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_OFFSET + rank)
    return sorted(scores.items(), key=lambda item: (item[1], item[0]), reverse=True)


def weight(importance: float, age: timedelta) -> float:
    """Return by how much a memory counts, from 0.25 to 1: one half is its importance, and one half its youth."""
    youth = 0.5 ** (max(age, timedelta()) / HALF_LIFE)
    return (0.5 + 0.5 * importance) * (0.5 + 0.5 * youth)


def weighted(
    ranked: Iterable[tuple[K, float]], facts: Mapping[K, tuple[float, datetime]], now: datetime
) -> Ranked[K]:
    """Return a ranking of memories anew, by score, importance and age. ``facts`` has the last two as importance and
    time; a key without facts is left out.
    """
    found = [
        (key, score * weight(facts[key][0], now - facts[key][1])) for key, score in ranked if key in facts
    ]
    return sorted(found, key=lambda item: (item[1], item[0]), reverse=True)


def _score(hits: Counter[int], length: int, mean: float, rarity: Mapping[int, float]) -> float:
    relative = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / mean
    # In the order of the query, so that the sum is the same number each time.
    return sum(
        rarity[place] * n * (TERM_SATURATION + 1) / (n + TERM_SATURATION * relative)
        for place, n in sorted(hits.items())
    )


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
