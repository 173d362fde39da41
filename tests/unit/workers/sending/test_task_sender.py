"""A batch is split so that every slot gets work."""

import pytest

from functory.workers.sending.task_sender import message_size


@pytest.mark.parametrize(
    ("count", "slots", "most", "waiting", "wanted"),
    [
        (1, 4, 100, 0, 1),
        (8, 4, 100, 0, 1),
        (9, 4, 100, 0, 2),
        (100, 4, 100, 0, 13),
        (100, 1, 100, 0, 50),
        (500, 2, 100, 0, 100),
        (100, 0, 100, 0, 50),
        (500, 4, 1, 0, 1),
        (100, 4, 100, 20, 13),
        (100, 4, 100, 200, 50),
        (100, 4, 100, 2000, 100),
    ],
)
def test_the_size_of_messages(count: int, slots: int, most: int, waiting: int, wanted: int) -> None:
    assert message_size(count, slots, most, waiting) == wanted
