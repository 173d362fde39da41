"""`fields=`: every list of the API answers only the fields that are asked for, and refuses others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functory.api.openapi import describe
from tests.support.api_client import ApiClient
from tests.support.world import embedded


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with embedded(tmp_path_factory.mktemp("fields")) as functory:
        functory.functions.save("def work(**given):\n    return given\n")
        functory.save_trigger("watch", on={"type": ["a.b"]}, function="work")
        functory.secrets.set("KEY", "a value", author="ada")
        for n in range(3):
            functory.emit("a.b", {"n": n})
        functory.settle()
        yield ApiClient(functory)


def test_rows_have_only_the_fields_that_were_asked_for(api: ApiClient) -> None:
    whole = api.get("/executions")["items"]
    assert len(whole) == 3 and len(whole[0]) > 20
    expected = [{"id": row["id"], "state": row["state"]} for row in whole]
    assert api.get("/executions", fields="state,id")["items"] == expected
    assert api.get("/executions", fields=["state", "id"])["items"] == expected
    assert api.get("/secrets", fields="name") == [{"name": "KEY"}]


def test_pages_go_on_with_the_same_fields_or_others(api: ApiClient) -> None:
    first = api.get("/executions", fields="id", limit=2)
    rest = api.get("/executions", fields="id,function", limit=2, before=first["next"])
    assert [len(row) for row in first["items"]] == [1, 1]
    assert [row["function"] for row in rest["items"]] == ["work"]
    assert rest["next"] is None


def test_an_unknown_field_is_refused_with_those_that_there_are(api: ApiClient) -> None:
    for text in ("id,input", "", "id,", "ID"):
        found = api.get("/executions", status=400, fields=text)
        assert "unknown field" in found["title"] and "run_seconds" in found["detail"]
    assert "unknown parameter fields" in api.get("/overview", status=400, fields="series")["title"]


def test_the_description_says_which_routes_are_lists() -> None:
    described = {
        path.removeprefix("/api/v1")
        for path, operations in describe()["paths"].items()
        if any(one["name"] == "fields" for one in operations.get("get", {}).get("parameters", ()))
    }
    assert described >= {
        "/executions",
        "/events",
        "/functions",
        "/triggers",
        "/sources",
        "/secrets",
        "/users",
    }
    assert not described & {"/overview", "/executions/{id_}", "/stream", "/health"}


def test_a_caller_without_payloads_gets_none_by_naming_them(api: ApiClient) -> None:
    with api.as_("viewer"):
        (row, *_) = api.get("/executions", fields="about")["items"]
    assert row == {"about": {"redacted": "payload:read"}}
