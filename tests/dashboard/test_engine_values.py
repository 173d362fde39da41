"""What the dashboard knows about the engine by heart: ``dashboard/test`` compares the same file with its sources."""

from __future__ import annotations

import json
import re
from pathlib import Path

from functory.api.access.login_failures import FAILURES
from functory.api.stream.topics import MAX_TOPICS
from functory.engine.database.schema.executions import BAD_ENDS, STATES
from functory.engine.database.short_ids import short
from functory.engine.executions.cancellation import OPEN
from functory.engine.executions.listing import CAUSES
from functory.engine.firings.suppressions import GUARD_REASONS

ROOT = Path(__file__).parents[2]
VALUES = json.loads((ROOT / "dashboard" / "test" / "engine_values.json").read_text())


def test_short_ids_of_the_dashboard_are_those_of_the_engine() -> None:
    assert {id_: short(id_) for id_ in VALUES["short_ids"]} == VALUES["short_ids"]


def test_the_dashboard_knows_the_states_and_causes_of_executions() -> None:
    assert sorted(VALUES["execution_states"]) == sorted(STATES)
    assert sorted(VALUES["bad_states"]) == sorted(BAD_ENDS)
    assert sorted(VALUES["open_states"]) == sorted(OPEN)
    assert sorted(VALUES["causes"]) == sorted(CAUSES)


def test_the_dashboard_knows_why_a_login_by_a_provider_fails() -> None:
    assert sorted(VALUES["login_failures"]) == sorted(FAILURES)


def test_the_dashboard_knows_how_many_topics_a_stream_has() -> None:
    assert VALUES["stream_topics"] == MAX_TOPICS


def test_the_dashboard_knows_the_reasons_of_suppressions() -> None:
    reference = (ROOT / "docs" / "reference" / "triggers.md").read_text()
    table = reference.partition("## Why a firing was suppressed")[2].partition("\n## ")[0]
    documented = {
        name for row in re.findall(r"^\|([^|]+)\|", table, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert set(VALUES["reasons"]) == documented
    assert documented >= GUARD_REASONS
