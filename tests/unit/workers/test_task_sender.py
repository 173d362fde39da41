"""A batch is split so that every slot gets work."""

import pytest

from functory.workers.task_sender import message_size


@pytest.mark.parametrize(
    ("count", "slots", "most", "wanted"),
    [
        (1, 4, 100, 1),
        (8, 4, 100, 1),
        (9, 4, 100, 2),
        (100, 4, 100, 13),
        (100, 1, 100, 50),
        (500, 2, 100, 100),
        (100, 0, 100, 50),
        (500, 4, 1, 1),
    ],
)
def test_the_size_of_messages(count: int, slots: int, most: int, wanted: int) -> None:
    assert message_size(count, slots, most) == wanted
