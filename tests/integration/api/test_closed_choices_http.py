"""Query parameters with closed choices: each refuses any other word, names its choices, and takes each of them.

A new parameter is put in one of the two lists: :data:`CLOSED`, or :data:`FREE` when it takes any text.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functory.api.openapi import describe
from functory.engine.agents import call_listing
from functory.engine.database.schema.agents import APPROVAL_KINDS, RUN_ENDED, RUN_OPEN
from functory.engine.database.schema.events import EVENT_STATES, SUPPRESSION_REASONS
from functory.engine.database.schema.executions import STATES
from functory.engine.database.schema.memory import MEMORY_KINDS
from functory.engine.database.schema.releases import PROPOSAL_ENDED, PROPOSAL_OPEN
from functory.engine.executions import listing
from functory.engine.executions.runs import questions
from functory.triggers.sources.registry import installed_plugins
from tests.support.api_client import ApiClient
from tests.support.world import embedded

CLOSED: dict[tuple[str, str], tuple[str, ...]] = {
    ("/approvals", "kind"): APPROVAL_KINDS,
    ("/approvals", "state"): questions.STATES,
    ("/calls", "state"): call_listing.STATES,
    ("/calls:cost", "by"): call_listing.COST_BY,
    ("/events", "state"): EVENT_STATES,
    ("/executions", "cause"): listing.CAUSES,
    ("/executions", "state"): STATES,
    ("/functions", "state"): ("enabled", "disabled"),
    ("/memories", "kind"): MEMORY_KINDS,
    ("/proposals", "state"): ("open", *PROPOSAL_OPEN, *PROPOSAL_ENDED),
    ("/runs", "state"): ("open", *RUN_OPEN, *RUN_ENDED),
    ("/sources:configs", "kind"): tuple(installed_plugins()),
    ("/suppressions", "reason"): SUPPRESSION_REASONS,
    ("/suppressions/matches", "reason"): SUPPRESSION_REASONS,
    ("/triggers", "state"): ("enabled", "paused", "shadow"),
    ("/triggers/{name}/firings", "decision"): ("fired", "suppressed"),
    ("/triggers/{name}/firings", "reason"): SUPPRESSION_REASONS,
}
# Names, ids, texts, times and cursors. ``action`` has the names of routes too, which a client may not know; ``topics``
# has a language of its own (tests/integration/api/stream/test_feed.py).
FREE = frozenset({
    "action", "after", "agent", "around", "at", "author", "before", "event", "execution", "fields", "function", "key",
    "label", "model", "of", "parent", "q", "replay_of", "root", "run", "since", "source", "subject", "topics",
    "trigger", "type", "until", "user",
})  # fmt: skip
PREFIX = "/api/v1"


def parameters() -> Iterator[tuple[str, str]]:
    """Every path and its query parameters that take words."""
    for path, operations in describe()["paths"].items():
        for operation in operations.values():
            for one in operation.get("parameters", ()):
                kinds = {each.get("type") for each in one["schema"].get("anyOf", [one["schema"]])} - {"null"}
                if one["in"] == "query" and not kinds <= {"boolean", "integer", "number"}:
                    yield path.removeprefix(PREFIX), one["name"]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with embedded(tmp_path_factory.mktemp("choices")) as functory:
        functory.functions.save("def work(**given):\n    return given\n")
        functory.save_trigger("watch", on={"type": ["a.b"]}, function="work")
        yield ApiClient(functory)


@pytest.mark.parametrize("parameter", CLOSED, ids=" ".join)
def test_a_closed_parameter_refuses_other_words_and_takes_its_choices(
    parameter: tuple[str, str], api: ApiClient
) -> None:
    path, name = parameter
    asked = path.replace("{name}", "watch")
    answer = api.answer("GET", asked, params={name: "bogus"})
    assert answer.status_code in (400, 422)
    assert [one for one in CLOSED[parameter] if one not in answer.text] == []
    for one in CLOSED[parameter]:
        assert api.answer("GET", asked, params={name: one}).status_code == 200, one


def test_every_parameter_is_closed_or_free() -> None:
    found = set(parameters())
    unknown = {(path, name) for path, name in found if (path, name) not in CLOSED and name not in FREE}
    assert unknown == set(), "put each into CLOSED or FREE"
    assert found >= CLOSED.keys()
    assert {name for _, name in found} >= FREE
    assert FREE.isdisjoint({name for _, name in CLOSED})
