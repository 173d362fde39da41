"""What an execution and its parts ask the API for when they are opened: at most four answers each."""

from __future__ import annotations

import pytest

from tests.support.dashboard import Deployment, Screen

EXECUTION = "GET /executions/{id}"

# The tabs of an execution are read when they are opened.
ASKED = {
    "/executions/{succeeded}": [EXECUTION, f"{EXECUTION}/input", f"{EXECUTION}/result", f"{EXECUTION}/trace"],
    "/executions/{failed}": [EXECUTION, f"{EXECUTION}/input", f"{EXECUTION}/trace"],
    "/executions/{succeeded}?tab=log": [EXECUTION, f"{EXECUTION}/attempts", f"{EXECUTION}/logs?tail=1000"],
    "/executions/{succeeded}?tab=io": [EXECUTION, f"{EXECUTION}/input", f"{EXECUTION}/result"],
    "/executions/{failed}?tab=why": [EXECUTION, f"{EXECUTION}/why"],
}
# True once this number of answers has come.
ANSWERS = """(wanted) => performance.getEntriesByType("resource")
  .filter((entry) => entry.name.includes("/api/v1/executions/") && entry.responseEnd > 0).length >= wanted"""


@pytest.mark.parametrize("path", ASKED)
def test_an_execution_asks_for_these_answers_and_no_more(
    path: str, screen: Screen, ids: dict[str, str]
) -> None:
    which = "failed" if "failed" in path else "succeeded"
    screen.go(path.format(**ids))
    screen.page.wait_for_function(ANSWERS, arg=len(ASKED[path]))
    screen.ready()
    assert sorted(screen.asked) == [one.format(id=ids[which]) for one in ASKED[path]]


def test_an_event_of_a_trace_is_asked_for_as_an_event(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save(
        "import functory\ndef tell() -> str:\n    return functory.emit('was.told', {'n': 7})\n"
    )
    row = functory.run("tell", {})
    functory.settle()
    told = row["result"]
    screen.go(f"/executions/{row['id']}?at={told}").shows("was.told").ready()
    screen.page.locator(".split-right").get_by_text("7").first.wait_for()
    of_it = EXECUTION.format(id=row["id"])
    assert sorted(screen.asked) == [f"GET /events/{told}", of_it, f"{of_it}/trace"]


def test_names_are_suggested_once_a_filter_is_used(screen: Screen) -> None:
    screen.go("/executions").ready().shows("parse_invoice")
    screen.press("/")
    screen.page.locator("#suggest-function option[value=parse_invoice]").wait_for(state="attached")
    assert list(screen.asked) == ["GET /executions?limit=100", "GET /functions?limit=1000"]
