"""Over HTTP: what functions do in words, and functions found by a goal."""

from __future__ import annotations

import pytest

from functory.client.functory import Functory
from tests.support.api_client import ApiClient
from tests.support.world import names

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    for name, label in (("late", "team:a"), ("theirs", "team:b")):
        doc = '"""List late invoices."""'
        engine.functions.save(f"def {name}(customer: str):\n    {doc}\n    return 1\n")
        engine.labels.function(name, [label], [], author="ada")
    return ApiClient(engine)


def test_an_author_describes_a_function_without_a_new_version(api: ApiClient) -> None:
    assert set(api.get("/functions/late/description").values()) == {None}
    with api.as_("author", name="eve"):
        made = api.put("/functions/late/description", {"text": " Overdue bills. "})
    assert (made["value"], made["author"], made["source_execution_id"]) == ("Overdue bills.", "eve", None)
    assert api.get("/functions/late/description") == made
    assert len(api.get("/functions/late/versions")["items"]) == 1
    (entry,) = api.get("/audit", action="function.describe")["items"]
    assert (entry["author"], entry["subject"]) == ("eve", "late")
    assert api.put("/functions/late/description", {"text": ""})["value"] is None
    assert "1,024" in str(api.put("/functions/late/description", {"text": "x" * 1025}, 400))
    api.put("/functions/missing/description", {"text": "x"}, 404)
    with api.as_("operator"):
        assert api.put("/functions/late/description", {"text": "x"}, 403)["needs"] == "author"


def test_functions_are_found_by_a_goal_as_models_see_them(api: ApiClient) -> None:
    api.put("/functions/late/description", {"text": "Overdue bills."})
    (found,) = api.get("/functions:search", q="overdue")
    assert (found["name"], found["description"], found["effect"]) == ("late", "Overdue bills.", "none")
    assert list(found["parameters"]["properties"]) == ["customer"] and found["score"] > 0
    assert len(api.get("/functions:search", q="customer", count=1)) == 1
    assert api.get("/functions:search", q="zebra") == []
    api.get("/functions:search", 400, q=" ")
    api.get("/functions:search", 422, q="x", count=0)


def test_labels_hide_descriptions_and_functions_of_others(api: ApiClient) -> None:
    api.put("/functions/theirs/description", {"text": "Secret plans"})
    assert names(api.get("/functions:search", q="plans")) == ["theirs"]
    with api.as_("author", labels=["team:a"]):
        assert api.get("/functions:search", q="plans") == []
        assert names(api.get("/functions:search", q="late invoices of a customer")) == ["late"]
        api.get("/functions/theirs/description", 404)
        api.put("/functions/theirs/description", {"text": "x"}, 404)
