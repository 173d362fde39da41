"""The first times of a schedule after its clocks change."""

from __future__ import annotations

from functory.client.schedules import after_clock_changes


def test_the_first_time_after_each_change_of_the_clocks_is_found_among_times() -> None:
    local = [
        "2026-10-24T02:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
        "2026-10-27T02:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
    ]
    times = [{"local_time": text} for text in local]
    assert [one["local_time"] for one in after_clock_changes(times)] == [local[2], local[4]]
    assert after_clock_changes(times[:1]) == after_clock_changes([]) == []
