"""Functions over HTTP: lists, saves under a precondition, checks that save nothing, and what other versions break."""

from __future__ import annotations

from pathlib import Path

import pytest

from functory.client.functory import Functory
from tests.support.api_client import ApiClient
from tests.support.waiting import wait_for
from tests.support.world import embedded, names

ADD = "def add(a: int, b: int) -> dict[str, int]:\n    return {'sum': a + b}\n"
OTHER = "def add(a: int, b: int, c: int = 0) -> dict[str, int]:\n    return {'sum': a + b + c}\n"

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    return ApiClient(engine)


def saved(api: ApiClient, name: str = "add", source: str = ADD, **fields: object) -> dict:
    return api.put(f"/functions/{name}", {"source": source.replace("add", name)} | fields, status=201)


def test_a_save_makes_a_version_and_the_same_content_makes_none(api: ApiClient) -> None:
    made = saved(api, metadata={"team": "data"})
    assert (made["number"], made["active"], made["author"], made["created"]) == (1, 1, "ada", True)
    assert made["input_schema"]["required"] == ["a", "b"]
    again = api.put("/functions/add", {"source": ADD})
    assert (again["number"], again["created"]) == (1, False)
    # Fields that are not given keep their values.
    changed = api.put("/functions/add", {"source": OTHER}, status=201)
    assert (changed["number"], changed["metadata"]) == (2, {"team": "data"})


def test_a_save_on_an_old_version_is_refused_with_the_number_of_the_new_one(api: ApiClient) -> None:
    saved(api)
    tag = api.answer("GET", "/functions/add").headers["etag"]
    api.put("/functions/add", {"source": OTHER}, headers={"if-match": tag}, status=201)
    stale = api.put("/functions/add", {"source": ADD}, headers={"if-match": tag}, status=412)
    assert (stale["base"], stale["current"]) == (1, 2)
    assert api.get("/functions/add")["active"] == 2
    # A version that is to be new.
    assert api.put("/functions/add", {"source": ADD}, headers={"if-match": '"0"'}, status=412)["current"] == 2
    wrong = api.put("/functions/add", {"source": ADD}, headers={"if-match": "W/abc"}, status=400)
    assert "If-Match" in wrong["title"]


def test_an_unknown_field_of_a_save_is_refused_and_not_ignored(api: ApiClient) -> None:
    api.put("/functions/add", {"source": ADD, "dependancies": []}, status=422)
    api.get("/functions/add", status=404)


def test_a_new_function_without_a_source_is_not_found(api: ApiClient) -> None:
    api.put("/functions/nothing", {"metadata": {}}, status=404)


def test_pages_of_functions_come_by_name_and_their_filters_hold(api: ApiClient) -> None:
    for name in ("alpha", "beta", "gamma"):
        saved(api, name)
    api.post("/functions/beta:disable")
    first = api.get("/functions", limit=2)
    second = api.get("/functions", limit=2, before=first["next"])
    assert names(first["items"] + second["items"]) == ["alpha", "beta", "gamma"]
    assert second["next"] is None
    assert names(api.get("/functions", state="disabled")["items"]) == ["beta"]
    assert names(api.get("/functions", q="AM")["items"]) == ["gamma"]
    assert api.get("/functions", before=first["next"], q="a", limit=2, status=400)
    assert "unknown parameter" in api.get("/functions", name="x", status=400)["title"]


def test_a_check_finds_faults_with_their_place_and_saves_nothing(api: ApiClient) -> None:
    saved(api)
    broken = api.post("/functions/add:check", {"source": "def add(a):\n    return (\n"})
    assert (broken["problem"]["line"], broken["problem"]["what"]) == (2, "the source has a syntax error")
    top = api.post("/functions/add:check", {"source": ADD + "print(1)\n"})
    assert top["problem"]["line"] == 3
    found = api.post(
        "/functions/add:check",
        {"source": "import os\ndef add(a: int) -> str:\n    return os.popen('ls').read()\n"},
    )
    assert found["problem"] is None
    assert any(one["kind"] == "subprocess" and one["line"] == 3 for one in found["findings"])
    assert (found["number"], "source" in found["changed"]) == (2, True)
    assert found["output_schema"] == {"type": "string"}
    assert api.get("/functions/add")["latest"] == 1
    same = api.post("/functions/add:check", {"source": ADD})
    assert (same["number"], same["changed"]) == (1, [])


def test_a_check_of_a_source_whose_import_fails_says_why_it_would_not_be_activated(api: ApiClient) -> None:
    found = api.post("/functions/add:check", {"source": "import nothing_like_this\n" + ADD})
    assert "nothing_like_this" in found["inactive_reason"]
    api.get("/functions/add", status=404)


def test_a_check_names_the_trigger_that_reads_a_field_which_the_version_no_longer_returns(
    api: ApiClient, engine: Functory
) -> None:
    source = (
        "from typing import TypedDict\nclass Price(TypedDict):\n    {field}: int\n"
        "def price(item: str) -> Price:\n    return {{'{field}': 1}}\n"
    )
    api.put("/functions/price", {"source": source.format(field="amount")}, status=201)
    saved(api, "tell", "def tell(event):\n    return None\n")
    engine.save_trigger(
        "watch",
        on={"type": ["execution.succeeded"], "subject": ["price"], "data": {"output": {"amount": [1]}}},
        function="tell",
    )
    found = api.post("/functions/price:check", {"source": source.format(field="cents")})
    assert [(one["trigger"], "amount" in one["what"]) for one in found["contract"]] == [("watch", True)]
    # A field that no version has named is no news.
    engine.save_trigger(
        "guess",
        on={"type": ["execution.succeeded"], "subject": ["price"], "data": {"output": {"other": [1]}}},
        function="tell",
    )
    kept = api.post("/functions/price:check", {"source": source.format(field="amount") + "X = 1\n"})
    assert kept["contract"] == []
    assert api.get("/functions/price")["latest"] == 1


def test_versions_differences_and_history_show_what_changed(api: ApiClient) -> None:
    saved(api)
    api.put("/functions/add", {"source": OTHER, "limits": {"timeout": 3}}, status=201)
    page = api.get("/functions/add/versions", limit=1)
    assert [row["number"] for row in page["items"]] == [2]
    assert [row["number"] for row in api.get("/functions/add/versions", before=page["next"])["items"]] == [1]
    found = api.get("/functions/add/diff", a=1, b=2)
    assert "+def add(a: int, b: int, c: int = 0)" in found["unified"]
    assert (found["a"]["source"], found["b"]["source"]) == (ADD, OTHER)
    assert found["fields"]["limits"] == {"a": {}, "b": {"timeout": 3}}
    assert [(row["version"], row["ended_by"]) for row in api.get("/functions/add/history")] == [
        (2, None),
        (1, "ada"),
    ]
    assert api.get("/functions/add/versions/1")["source"] == ADD
    api.get("/functions/add/versions/9", status=404)


def test_a_rollback_marks_the_version_and_it_is_not_activated_again_without_force(api: ApiClient) -> None:
    saved(api)
    api.put("/functions/add", {"source": OTHER}, status=201)
    assert api.post("/functions/add:rollback", {})["active"] == 1
    assert api.get("/functions/add/versions/2")["mark"]["mark"] == "bad"
    assert "marked bad" in api.post("/functions/add:activate", {"version": 2}, status=409)["title"]
    assert (
        api.post("/functions/add:mark", {"version": 2, "mark": "good", "reason": "mended"})["mark"]["by"]
        == "ada"
    )
    assert api.post("/functions/add:activate", {"version": 2})["active"] == 2


def test_a_disabled_function_is_enabled_with_the_version_that_was_active(api: ApiClient) -> None:
    saved(api)
    assert api.post("/functions/add:disable")["state"] == "disabled"
    enabled = api.post("/functions/add:enable")
    assert (enabled["state"], enabled["active"]) == ("enabled", 1)


def test_a_function_that_others_use_is_deleted_only_by_force(api: ApiClient, engine: Functory) -> None:
    saved(api)
    saved(api, "user", "def user(x):\n    return x\n", dependencies=["add"])
    engine.save_trigger("each", on={"type": ["order.paid"]}, function="add", input={"a": 1, "b": 2})
    assert api.get("/functions/add/dependents") == [
        {"kind": "function", "name": "user"},
        {"kind": "trigger", "name": "each"},
    ]
    assert api.get("/functions/add")["triggers"] == ["each"]
    assert "in use" in api.send("DELETE", "/functions/add", status=409)["title"]
    api.send("DELETE", "/functions/add?force=true", status=204)
    api.get("/functions/add", status=404)


def test_a_renamed_function_runs_by_both_names_with_an_alias(api: ApiClient, engine: Functory) -> None:
    """The alias converts its input as before, and passes values without a JSON form within the process."""
    engine.functions.save(
        "from datetime import date\n\n"
        "def later(day: date, days: int = 1):\n"
        "    from datetime import timedelta\n"
        "    return later(day + timedelta(days=1), days - 1) if days else day\n"
    )
    engine.functions.save(
        "from datetime import date\n\ndef week():\n    return later(date(2026, 1, 1), 7).year\n",
        dependencies=["later"],
    )
    assert engine.call("later", "2026-01-31") == "2026-02-01"
    refused = api.post("/functions/later:rename", {"to": "day_after"}, status=409)
    assert refused["detail"] == "it is used by function week"
    wanted = api.post("/functions/later:rename", {"to": "day_after", "dry_run": True})
    assert wanted["is_refused"] is True
    assert wanted["uses"] == [{"kind": "function", "name": "week", "how": ""}]
    api.get("/functions/day_after", status=404)
    done = api.post("/functions/later:rename", {"to": "day_after", "alias": True})
    assert (done["name"], done["version"], done["alias_version"], done["is_refused"]) == (
        "day_after",
        1,
        2,
        False,
    )
    for name in ("later", "day_after"):
        assert engine.call(name, "2026-01-31", days=2) == "2026-02-02"
    assert engine.call("week") == 2026
    assert api.get("/functions/later/dependents") == [{"kind": "function", "name": "week"}]


def test_every_version_of_a_renamed_function_runs(api: ApiClient, engine: Functory) -> None:
    saved(api)
    api.put("/functions/add", {"source": OTHER}, status=201)
    assert api.post("/functions/add:rename", {"to": "plus"})["versions"] == 2
    assert [engine.call(f"plus@{number}", 1, 2) for number in (1, 2)] == [{"sum": 3}] * 2
    assert engine.call("plus", 1, 2, 3) == {"sum": 6}
    assert api.get("/functions/add")["state"] == "disabled"


def test_a_caller_with_labels_renames_to_no_name_of_others(api: ApiClient) -> None:
    saved(api, "mine")
    saved(api, "theirs")
    api.post("/functions/mine:labels", {"add": ["team:a"]})
    with api.as_("author", labels=["team:a"]):
        api.post("/functions/theirs:rename", {"to": "other"}, status=404)
        refused = api.post("/functions/mine:rename", {"to": "theirs"}, status=403)
        assert "not yours" in refused["title"]
        api.post("/functions/mine:rename", {"to": "ours"})
        assert api.get("/functions/ours")["labels"] == ["team:a"]


def test_a_caller_with_labels_neither_sees_nor_changes_other_functions(api: ApiClient) -> None:
    saved(api, "mine")
    saved(api, "theirs")
    api.post("/functions/mine:labels", {"add": ["team:a"]})
    with api.as_("author", labels=["team:a"]):
        assert names(api.get("/functions")["items"]) == ["mine"]
        for path in ("", "/versions", "/versions/1", "/history", "/dependents"):
            api.get(f"/functions/theirs{path}", status=404)
        api.get("/functions/theirs/diff", status=404, a=1, b=1)
        api.put("/functions/theirs", {"source": ADD.replace("add", "theirs")}, status=403)
        api.post("/functions/theirs:check", {"source": "x"}, status=403)
        for action, body in (("disable", None), ("rollback", {}), ("activate", {"version": 1})):
            api.post(f"/functions/theirs:{action}", body, status=404)
        api.send("DELETE", "/functions/theirs", status=404)
        # What is new belongs to the labels of its author.
        assert saved(api, "another")["labels"] == ["team:a"]
    assert api.get("/functions/theirs")["state"] == "enabled"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_an_author_changes_functions(api: ApiClient, role: str) -> None:
    saved(api)
    with api.as_(role):
        assert api.get("/functions/add")["name"] == "add"
        refused = api.put("/functions/add", {"source": OTHER}, status=403)
        assert refused["needs"] == "author"
        for action, body in (
            ("check", {"source": ADD}), ("disable", None), ("rollback", {}), ("rename", {"to": "b"}),
        ):  # fmt: skip
            assert api.post(f"/functions/add:{action}", body, status=403)["needs"] == "author"


def test_a_grant_that_waits_for_an_operator_is_in_the_list(tmp_path: Path) -> None:
    with embedded(tmp_path, author_grants=["secret"]) as engine:
        api = ApiClient(engine)
        saved(api, hosts=["api.example.com"])
        (row,) = api.get("/functions")["items"]
        assert row["pending_grants"] == ["host api.example.com"]


def test_statistics_tell_the_versions_apart(api: ApiClient, engine: Functory) -> None:
    saved(api, "half", "def half(x: int) -> float:\n    return 1 / x\n")
    engine.run("half", {"x": 1})
    engine.run("half", {"x": 0})
    api.put("/functions/half", {"source": "def half(x: int) -> float:\n    return x / 2\n"}, status=201)
    engine.run("half", {"x": 0})
    # Recent rows are counted at most once a second.
    row = wait_for(lambda: (one := api.get("/functions")["items"][0])["runs_24h"] == 3 and one)
    assert (row["runs_24h"], row["failures_24h"], sum(row["spark"]), sum(row["failure_spark"])) == (
        3,
        1,
        3,
        1,
    )
    found = api.get("/functions/half/stats", since="1h")
    assert (found["interval_seconds"], sum(one["runs"] for one in found["series"])) == (60, 3)
    assert [(one["version"], one["runs"], one["failures"]) for one in found["versions"]] == [
        (2, 1, 0),
        (1, 2, 1),
    ]
    assert found["versions"][0]["p95_run_seconds"] is not None
    assert (found["name"], found["version"]) == ("half", 2)
    assert (found["total"]["runs"], found["total"]["failures"]) == (3, 1)
    assert found["total"]["p50_run_seconds"] <= found["total"]["p99_run_seconds"]
    # What is read from rows is about the active version.
    assert (found["recent"]["executions"], found["recent"]["errors"]) == (1, [])
    assert (found["limits"]["timeout"], found["change"], found["advice"]) == (30, None, [])


def test_the_numbers_of_a_function_name_its_calls_and_give_advice(api: ApiClient, engine: Functory) -> None:
    saved(api, "part")
    source = "def whole(a, b):\n    if a > 2:\n        raise KeyError(a)\n    return part(a, b)\n"
    api.put("/functions/whole", {"source": source, "dependencies": ["part"]}, status=201)
    for number in range(8):
        engine.run("whole", {"a": number, "b": 1})
    found = wait_for(lambda: (one := api.get("/functions/whole/stats"))["total"]["runs"] == 8 and one)
    (part,) = found["calls"]
    assert (part["function"], part["calls"], part["failed"]) == ("part", 3, 0)
    assert 0 < part["share"] <= 1
    assert found["recent"]["errors"] == [{"type": "KeyError", "count": 5}]
    (advice,) = found["advice"]
    assert (advice["code"], advice["says"]) == ("one_error", "5 of 5 failed attempts are KeyError")
    assert advice["figures"] == {"errors": 5, "failures": 5, "type": "KeyError"}
    assert advice["try"] == "functory execution list --function whole --state failed"


def test_the_use_of_a_wrong_version_counts_what_it_touched(api: ApiClient, engine: Functory) -> None:
    source = "from functory import emit\ndef load(x):\n    emit('thing.made', {'x': x})\n"
    saved(api, "load", source)
    saved(api, "tell", "def tell(event):\n    return None\n")
    engine.save_trigger("each", on={"type": ["thing.made"]}, function="tell")
    engine.run("load", {"x": 1})
    api.put("/functions/load", {"source": source + "MARK = 2\n"}, status=201)
    done = [engine.run("load", {"x": number})["id"] for number in (2, 3)]
    engine.settle()
    found = api.get("/functions/load/use", **{"from": 2})
    assert (found["executions"], found["more"], found["roots"], found["functions"]) == (
        2,
        False,
        2,
        {"tell": 2},
    )
    assert found["execution_ids"] == done[::-1]
    assert found["events"] >= 2
    assert api.get("/functions/load/use", **{"from": 1, "to": 2})["executions"] == 3


def test_operators_set_which_log_lines_are_kept(api: ApiClient) -> None:
    saved(api)
    assert api.get("/functions/add")["log_policy"] == "full"
    with api.as_("operator"):
        answer = api.post("/functions/add:log-policy", {"log_policy": "sampled:0.25"})
        assert answer == {"log_policy": "sampled:0.25"}
        wrong = api.post("/functions/add:log-policy", {"log_policy": "loud"}, status=400)
        assert "full, summary, sampled or off" in wrong["detail"]
    assert api.get("/functions")["items"][0]["log_policy"] == "sampled:0.25"
    with api.as_("viewer"):
        api.post("/functions/add:log-policy", {"log_policy": "off"}, status=403)
    with api.as_("operator", labels=["team:a"]):
        api.post("/functions/add:log-policy", {"log_policy": "off"}, status=404)
