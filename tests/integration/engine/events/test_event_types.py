"""The catalogue of event types says what the engine writes, and the reference page lists the same types."""

import re
from pathlib import Path

from functory.engine.database import schema
from functory.engine.events.event_types import DATA_FIELDS
from functory.engine.events.store import RESERVED
from tests.support.ordinary_history import ordinary
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "events.md"


def test_the_events_of_an_ordinary_history_have_the_fields_of_the_catalogue(world: World) -> None:
    ordinary(world)
    ours = [row for row in world.rows(schema.event) if row["type"].split(".")[0] in RESERVED]
    assert len({row["type"] for row in ours}) > 15
    for row in ours:
        fields = DATA_FIELDS[row["type"]]
        assert fields is None or set(row["data"]) <= fields, row["type"]


def test_the_reference_lists_the_types_of_the_catalogue() -> None:
    table = PAGE.read_text().split("## Types")[1].split("## Data")[0]
    listed = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert listed == set(DATA_FIELDS)
