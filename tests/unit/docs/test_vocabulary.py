"""The check that keeps replaced words out of code and texts (`make check`)."""

import pytest

from tests.support import vocabulary

CODE, TEXTS = (
    {"lane": "concurrency group"},
    {"nobody": "no process", "letters": "characters", "told of": "reported"},
)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class LaneTable: pass", [(1, "lane")]),
        ("x = 1\nby_lane_id = 2", [(2, "lane")]),
        ("LANE = 1", [(1, "lane")]),
        ('"""Takes a\n\nlane."""', [(3, "lane")]),
        ("# nobody waits", [(1, "nobody")]),
        ('f"{x} letters"', [(1, "letters")]),
        ('"""It is told\n    of."""', [(1, "told of")]),
        ("plane = 'airplane'", []),
        ("nobody = 1", []),
        ("# a dead letter, and dead letters", []),
    ],
)
def test_replaced_words_are_found_in_identifiers_and_in_texts(
    source: str, found: list[tuple[int, str]]
) -> None:
    assert [(line, word) for line, word, _ in vocabulary.in_python(source, CODE, TEXTS)] == found


def test_the_glossary_lists_words_for_code_and_for_texts_with_what_to_write() -> None:
    code, texts = vocabulary.replaced(vocabulary.CODE), vocabulary.replaced(vocabulary.TEXTS)
    assert code["lane"] == code["laned"] == "concurrency group"
    assert "characters" in texts["letters"] and len(texts) > 10
