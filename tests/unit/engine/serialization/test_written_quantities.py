"""Quantities mean what people read, or are refused with the right way to write them; what is printed is read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.agents.money import NANO, dollars, nano_dollars
from functory.engine.errors import Invalid
from functory.engine.serialization import durations, written_quantities
from functory.engine.serialization.written_quantities import Rate

# Spellings that mean different things to different people, or nothing.
ODD = (
    "", "-1", "1e9", "1_000", "\u0663", "\uff13", "½", "²", " 5 ", "nan", "inf", "1,5", "1,000", "0x10", "+5", "--5",
    "1;5", "P1D", "60 s", "1g", "1 GB", "1GB", "1M", "10 per minute", "10/m", "150%", "1h1h", ".5", "1.", "true",
)  # fmt: skip
READERS: dict[str, tuple[Callable[[str], Any], dict[str, Any]]] = {
    "count": (lambda text: written_quantities.count(text, "--x"), {"0": 0, "007": 7, "1000": 1000}),
    "size": (
        lambda text: written_quantities.size(text, "--x"),
        {"0": 0, "4096": 4096, "1KiB": 1024, "2GiB": 2**31},
    ),
    "share": (
        lambda text: written_quantities.share(text, "--x"),
        {"5%": 0.05, "0.1%": 0.001, "100%": 1.0, "0.25": 0.25, "0": 0.0},
    ),
    "rate": (
        lambda text: written_quantities.rate(text, "--x"),
        {"10/1m": Rate(10, "1m"), "3/1h30m/2": Rate(3, "1h30m", 2)},
    ),
    "duration": (
        lambda text: durations.parse(text, "--x"),
        {"0": 0.0, "1m": 60.0, "1.5d": 129_600.0, "1d12h": 129_600.0, "500ms": 0.5},
    ),
    "dollars": (
        lambda text: nano_dollars(text, "--x"),
        {"0": 0, "$1.50": 1_500_000_000, "1.5": 1_500_000_000, "007": 7 * NANO},
    ),
}
# Around an amount of money spaces do no harm.
HARMLESS = {("dollars", " 5 ")}


@pytest.mark.parametrize("kind", READERS)
def test_each_kind_takes_its_spelling_and_refuses_the_odd_ones(kind: str) -> None:
    read, taken = READERS[kind]
    assert {text: read(text) for text in taken} == taken
    for text in ODD:
        if (kind, text) in HARMLESS:
            continue
        with pytest.raises(Invalid) as refused:
            read(text)
        assert refused.value.try_ or refused.value.why, text


@pytest.mark.parametrize(
    ("kind", "text", "advice"),
    [
        ("size", "1g", "1GiB, which is 1,073,741,824 bytes"),
        ("size", "64 MB", "64MiB, which is 67,108,864 bytes"),
        ("size", "1m", "1MiB"),
        ("rate", "10/m", "--x 10/1m"),
        ("rate", "10 per minute", "--x 3/1m"),
        ("share", "5", "5%"),
        ("share", "150%", "10%, or 0.1"),
        ("duration", "60", "60s for seconds"),
        ("dollars", "1,5", "digits with a point"),
    ],
)
def test_a_refusal_says_how_to_write_it(kind: str, text: str, advice: str) -> None:
    with pytest.raises(Invalid) as refused:
        READERS[kind][0](text)
    assert advice in (refused.value.try_ or "")


@given(st.integers(0, 10**15 - 1))
def test_a_printed_size_is_read_again(size: int) -> None:
    assert written_quantities.size(written_quantities.format_size(size), "size") == size


@given(st.integers(0, 10**6))
def test_a_printed_share_is_read_again(millionths: int) -> None:
    share = millionths / 10**6
    assert written_quantities.share(written_quantities.format_share(share), "share") == share


@given(st.integers(0, 10**9 - 1), st.integers(1, 10**6), st.none() | st.integers(0, 10**9 - 1))
def test_a_printed_rate_is_read_again(limit: int, seconds: int, burst: int | None) -> None:
    rate = Rate(limit, durations.format_duration(seconds), burst)
    assert written_quantities.rate(written_quantities.format_rate(rate), "rate") == rate
    assert durations.parse(rate.period, "period") == seconds


@given(st.integers(0, 10**12))
def test_a_printed_length_of_time_is_read_again(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert durations.parse(durations.format_duration(seconds), "time") == pytest.approx(seconds, abs=1e-6)


@given(st.integers(0, 10**7))
def test_a_printed_amount_of_money_is_read_again(cents: int) -> None:
    amount = cents * NANO // 100
    assert nano_dollars(dollars(amount), "usd") == amount


@given(st.text(max_size=12))
@pytest.mark.parametrize("kind", READERS)
def test_any_text_is_read_or_refused(kind: str, text: str) -> None:
    try:
        READERS[kind][0](text)
    except Invalid as refused:
        assert refused.what and (refused.why or refused.try_)
    else:
        assert text.isascii()
