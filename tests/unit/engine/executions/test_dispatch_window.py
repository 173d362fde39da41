"""The window on the broker follows what workers take."""

from datetime import UTC, datetime, timedelta

from functory.engine.executions.dispatch_window import (
    MAX_WINDOW,
    MIN_WINDOW,
    PER_SLOT,
    WINDOW_SECONDS,
    DispatchWindow,
)

START = datetime(2030, 1, 1, tzinfo=UTC)


def rounds(window: DispatchWindow, per_second: float, count: int, seconds: float = 0.05) -> list[int]:
    """Fill the window ``count`` times while workers take ``per_second``. Returns its size after each round."""
    unclaimed, sizes = 0, []
    for number in range(count):
        now = START + timedelta(seconds=number * seconds)
        unclaimed = max(0, unclaimed - round(per_second * seconds))
        places = window.places(now, unclaimed)
        unclaimed += places if places >= window.refill else 0
        window.note_sent(places if places >= window.refill else 0)
        sizes.append(window.size)
    return sizes


def test_without_workers_and_at_the_beginning_it_is_small() -> None:
    window = DispatchWindow()
    assert window.size == MIN_WINDOW
    window.slots = 2
    assert window.size == 2 * PER_SLOT


def test_of_long_executions_hardly_anything_leaves_the_database() -> None:
    window = DispatchWindow()
    window.slots = 4
    assert set(rounds(window, per_second=20, count=100)) == {4 * PER_SLOT}


def test_of_short_ones_there_is_half_a_second_of_work() -> None:
    window = DispatchWindow()
    window.slots = 4
    *_, last = rounds(window, per_second=1000, count=100)
    assert 0.7 * WINDOW_SECONDS * 1000 <= last <= 1.3 * WINDOW_SECONDS * 1000


def test_it_has_a_limit() -> None:
    window = DispatchWindow()
    window.slots = 4
    assert max(rounds(window, per_second=1_000_000, count=100)) == MAX_WINDOW


def test_it_shrinks_when_less_is_taken() -> None:
    window = DispatchWindow()
    window.slots = 4
    rounds(window, per_second=1000, count=100)
    later = START + timedelta(seconds=60)
    assert window.places(later, 0) == 4 * PER_SLOT


def test_a_burst_has_large_batches_after_a_few_rounds_and_long_executions_never_have() -> None:
    sizes = []
    for taken in (1.0, 0.0):
        window = DispatchWindow()
        window.slots = 4
        window.places(START - timedelta(seconds=60), 0)
        unclaimed = 0
        for number in range(6):
            # The first messages are taken at once in both cases; of long executions nothing more is.
            unclaimed = 0 if number < 2 else round(unclaimed * (1 - taken))
            places = window.places(START + timedelta(seconds=0.03 * number), unclaimed)
            window.note_sent(places)
            unclaimed += places
        sizes.append(window.size)
    assert sizes[0] >= 1000
    assert sizes[1] <= 4 * 4 * PER_SLOT


def test_a_quarter_of_it_is_filled_at_least() -> None:
    window = DispatchWindow()
    window.slots = 4
    assert (window.places(START, 13), window.places(START, 17), window.refill) == (3, 0, 4)


def test_what_two_threads_send_is_counted_once() -> None:
    window = DispatchWindow()
    window.slots = 1
    now, unclaimed = START, 0
    for number in range(40):
        now = START + timedelta(seconds=0.05 * number)
        # The router and the dispatcher count at the same time and send 25 each; workers take all of them.
        window.places(now, unclaimed)
        window.places(now, unclaimed)
        window.note_sent(25)
        window.note_sent(25)
    assert 0.7 * WINDOW_SECONDS * 1000 <= window.size <= 1.3 * WINDOW_SECONDS * 1000
