"""Ranking of texts and of memories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from functory.engine.agents import ranking

NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The invoice, late!", ["the", "invoice", "late"]),
        ("send_late_invoices", ["send", "late", "invoice"]),
        ("parseCSVFile readHTML2", ["parse", "csvfile", "read", "html2"]),
        ("address class gas", ["address", "class", "gas"]),
        ("ÄRGER Straße", ["ärger", "strasse"]),
        ("発注 order", ["発", "注", "order"]),
        ("\x1b[2J \u202e ---", ["2", "j"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert ranking.words(text) == expected


def keys(found: ranking.Ranked[str]) -> list[str]:
    return [key for key, _ in found]


def test_a_rare_word_counts_more_than_a_usual_one() -> None:
    texts = [(f"usual {n}", "the customer paid") for n in range(9)] + [("rare", "the invoice of Ada")]
    assert keys(ranking.by_words("customer invoice", texts))[0] == "rare"


def test_a_short_text_comes_before_a_long_one_with_the_same_words() -> None:
    found = ranking.by_words("invoice", [("a", "invoice"), ("b", "invoice" + " and more words" * 20)])
    assert keys(found) == ["a", "b"]


def test_texts_without_a_word_of_the_query_are_not_found() -> None:
    assert ranking.by_words("invoice", [("a", "tea"), ("b", "")]) == []
    assert ranking.by_words("", [("a", "tea")]) == []
    assert ranking.by_words("tea", []) == []


def test_of_equal_texts_the_newer_one_comes_first() -> None:
    assert keys(ranking.by_words("tea", [("1", "tea"), ("2", "tea")])) == ["2", "1"]


def test_a_long_query_is_cut() -> None:
    query = " ".join(f"w{n}" for n in range(ranking.MAX_QUERY_WORDS)) + " last"
    assert ranking.by_words(query, [("a", "last")]) == []


def test_what_two_rankings_find_comes_before_the_first_of_one() -> None:
    text, vectors = [("a", 9.0), ("both", 1.0)], [("b", 0.9), ("both", 0.1)]
    assert keys(ranking.fused(text, vectors)) == ["both", "b", "a"]
    assert ranking.fused([], []) == []


def test_the_weight_of_a_memory() -> None:
    month = ranking.HALF_LIFE
    assert ranking.weight(1.0, timedelta()) == 1.0
    assert ranking.weight(0.0, timedelta()) == 0.5
    assert ranking.weight(1.0, month) == 0.75
    assert ranking.weight(0.0, month * 1000) == 0.25
    # A clock that went back makes nothing heavier.
    assert ranking.weight(1.0, -month) == 1.0


def test_an_important_memory_comes_before_a_better_match() -> None:
    facts = {"better": (0.0, NOW), "important": (1.0, NOW), "old": (1.0, NOW - ranking.HALF_LIFE * 9)}
    ranked = [("better", 1.0), ("old", 0.95), ("important", 0.9), ("gone", 5.0)]
    assert keys(ranking.weighted(ranked, facts, NOW)) == ["important", "better", "old"]
