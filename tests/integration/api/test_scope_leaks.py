"""What labels and missing rights hide is in no answer: every route that reads is asked for what others have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from functory.api import create_app
from functory.client.functory import Functory
from functory.engine.database import schema, short_ids
from tests.support.api_client import ApiClient
from tests.support.api_routes import ApiRoute, api_routes
from tests.support.model_calls import ask
from tests.support.two_teams import MARKER, OURS, Teams, fail, propose, run_that_asks, seed
from tests.support.world import World, embedded, world_beside

pytest_plugins = ["tests.support.world"]

# The stream ends by itself never, and has a test of its own (stream/test_feed.py); a login is the caller's own.
LEFT_OUT = ("stream.open", "login.ways", "login.finish", "login.provider")
# What stands in paths, and what is worth asking for in parameters.
IN_PATHS = (
    "execution", "started", "below", "event", "shared", "paused", "function", "child", "trigger", "own", "source",
    "secret", "call", "proposal", "approval", "agent", "run", "question", "memory",
)  # fmt: skip
IN_PARAMETERS = ("execution", "started", "event", "function", "trigger", "type", "subject", "agent", "run")
NO_TEXTS = (
    "limit",
    "before",
    "after",
    "since",
    "until",
    "depth",
    "budget",
    "count",
    "tail",
    "from",
    "to",
    "a",
    "b",
)
# In each payload, and in no name.
PAYLOAD = "mango"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    with embedded(tmp_path_factory.mktemp("teams")) as opened:
        opened.executions.list()
        yield opened


@pytest.fixture(scope="module")
def world(engine: Functory) -> Iterator[World]:
    with world_beside(engine) as opened:
        yield opened


@pytest.fixture(scope="module")
def teams(world: World, engine: Functory) -> Teams:
    return seed(world, engine)


@pytest.fixture(scope="module")
def api(engine: Functory, teams: Teams) -> ApiClient:
    client = ApiClient(engine)
    # Jobs of an admin.
    ids = [teams.theirs["execution"]]
    client.post("/batches", {"action": "replay", "ids": ids, "reason": MARKER}, 201)
    client.post("/backtests", {"trigger": teams.theirs["trigger"]}, 201)
    return client


@pytest.fixture(scope="module")
def reads(engine: Functory) -> list[tuple[ApiRoute, list[str]]]:
    """Each route that reads, with its parameters."""
    app = create_app(engine)
    described = app.openapi()["paths"]
    found = []
    for route in api_routes(app):
        if route.method == "GET" and route.operation not in LEFT_OUT:
            given = described[route.path.replace(":path}", "}")]["get"].get("parameters", ())
            found.append((route, [one["name"] for one in given if one["in"] == "query"]))
    assert len(found) > 60
    return found


def paths(route: ApiRoute, names: dict[str, str]) -> Iterator[tuple[str, set[str]]]:
    """The path for all that a team has, and what of it is in the path."""
    wanted = re.findall(r"{(\w+)(?::path)?}", route.path)
    for value in [names[name] for name in IN_PATHS if name in names] if wanted else [""]:
        fill = {"kind": "webhook", "number": "1", "key": names["key"]}
        path = re.sub(r"{(\w+)(?::path)?}", lambda at: fill.get(at[1], value), route.path)  # noqa: B023
        yield path, {value, names["key"]} & set(path.split("/"))


def leaks(answer: Any, asked: set[str], word: str) -> str | None:
    """The answer with the word in it, beside what was asked for."""
    assert answer.status_code < 500, answer.text
    text = answer.text + repr(sorted(answer.headers.items()))
    for one in sorted(asked, key=len, reverse=True):
        text = text.replace(one, "")
    return text if word in text else None


def test_a_caller_with_labels_finds_nothing_of_another_team(
    api: ApiClient, teams: Teams, reads: list[tuple[ApiRoute, list[str]]]
) -> None:
    found = []
    with api.as_("author", labels=[OURS], rights=["approve"], name="eve"):
        for route, parameters in reads:
            for names in (teams.theirs, teams.ours):
                for path, asked in paths(route, names):
                    answer = api.answer("GET", path.removeprefix("/api/v1"))
                    if (leak := leaks(answer, asked, MARKER)) is not None:
                        found.append((path, answer.status_code, leak[:400]))
            first = next(paths(route, teams.ours))[0].removeprefix("/api/v1")
            asked_for = [teams.theirs[name] for name in IN_PARAMETERS]
            for parameter in (one for one in parameters if one not in NO_TEXTS):
                for value in (*asked_for, short_ids.short(teams.theirs["execution"]), MARKER[:4]):
                    answer = api.answer("GET", first, params={parameter: value})
                    if (leak := leaks(answer, {value}, MARKER)) is not None:
                        found.append((f"{first}?{parameter}={value}", answer.status_code, leak[:400]))
    assert not found, "\n".join(map(str, found))


def test_what_is_hidden_would_be_found(
    api: ApiClient, teams: Teams, reads: list[tuple[ApiRoute, list[str]]]
) -> None:
    """The same search, as one who sees everything: the marker is in all these answers."""
    found = set()
    for route, _ in reads:
        for path, asked in paths(route, teams.theirs):
            answer = api.answer("GET", path.removeprefix("/api/v1"))
            if leaks(answer, asked, MARKER):
                found.add(route.operation)
    assert found >= {
        "agents.get", "agents.list", "agents.versions",
        "audit.list", "backtests.list", "batches.list", "calls.get", "calls.list", "canaries.get", "canaries.list",
        "events.decisions", "functions.description", "memories.get", "memories.list",
        "events.get",
        "events.list", "events.types", "executions.attempts", "executions.get", "executions.input", "executions.list",
        "executions.logs", "executions.spans", "executions.times", "executions.why", "functions.get",
        "functions.list", "grants.list", "map.get", "packs.list", "approvals.get", "approvals.list",
        "proposals.get", "proposals.list", "runs.get", "runs.list", "runs.steps",
        "secrets.list", "sources.all", "state.get", "suppressions.list", "trees.nodes", "trees.outline",
        "triggers.firings", "triggers.flow", "triggers.get", "triggers.list",
    }  # fmt: skip


def test_a_caller_with_labels_cannot_act_on_another_team(api: ApiClient, teams: Teams) -> None:
    ours, theirs = teams.ours, teams.theirs
    definition = {"on": {"type": ["a.b"]}, "function": theirs["function"]}
    with api.as_("author", labels=[OURS], rights=["approve"], name="eve"):
        for id_ in (theirs["execution"], theirs["started"], theirs["below"]):
            for verb in ("retry", "replay", "cancel", "compensate"):
                api.post(f"/executions/{id_}:{verb}", {}, 404)
        # Its tree may have executions that this caller does not see.
        api.post(f"/executions/{ours['execution']}:cancel", {"tree": True}, 403)
        api.post(f"/events/{theirs['event']}:release", None, 404)
        for verb in ("approve", "reject", "withdraw"):
            api.post(f"/proposals/{theirs['proposal']}:{verb}", None, 404)
        for verb in ("approve", "reject"):
            api.post(f"/approvals/{theirs['approval']}:{verb}", None, 404)
            api.post(f"/approvals/{theirs['question']}:{verb}", None, 404)
        api.post(f"/approvals/{theirs['question']}:answer", {"answer": MARKER}, 404)
        for verb in ("pause", "resume", "cancel"):
            api.post(f"/runs/{theirs['run']}:{verb}", None, 404)
        api.post(f"/agents/{theirs['agent']}/runs", {"goal": "x"}, 404)
        api.post(f"/agents/{theirs['agent']}:disable", None, 404)
        api.send("PATCH", f"/agents/{theirs['agent']}", {"tools": []}, 404)
        named = {"name": "mine", "function": ours["function"], "tools": [theirs["child"]]}
        assert leaks(api.answer("POST", "/agents", named), {theirs["child"]}, MARKER) is None
        api.post("/agents", named | {"tools": [], "agents": [theirs["agent"]]}, 400)
        api.post("/executions", {"function": theirs["function"]}, 404)
        api.put("/triggers/new", {"definition": definition}, 404)
        api.post(f"/triggers/{ours['trigger']}:test", {"event": theirs["event"]}, 404)
        api.post(f"/triggers/{ours['trigger']}:fire", {"event": theirs["event"]}, 404)
        api.post("/suppressions:replay", {"trigger": theirs["trigger"], "event": theirs["paused"]}, 404)
        api.post("/suppressions:resume", {"root": theirs["paused"]}, 400)
        for method, path, body in (
            ("DELETE", "", None), ("POST", ":disable", None), ("POST", ":labels", {"add": [OURS]}),
            ("POST", ":check", {"source": "def f(): return 1"}), ("PUT", "", {"source": "def f(): return 1"}),
        ):  # fmt: skip
            assert api.answer(method, f"/functions/{theirs['name']}{path}", body).status_code in (403, 404)
            if path not in (":disable", ":check"):
                answer = api.answer(method, f"/triggers/{theirs['trigger']}{path}", body)
                assert answer.status_code in (403, 404, 422), (method, path, answer.text)
        for filter_ in ({"function": [theirs["function"]]}, {"trigger": [theirs["trigger"]]}, {"q": MARKER}):
            counted = api.post("/batches:count", {"action": "replay", "filter": filter_})
            assert (counted["count"], counted["examples"]) == (0, [])
        counted = api.answer("POST", "/batches:count", {"action": "replay", "ids": [theirs["execution"]]})
        assert leaks(counted, set(theirs.values()), MARKER) is None
        draft = {"on": {"type": [theirs["type"]]}, "function": ours["function"]}
        shown = api.answer("POST", "/triggers:preview", {"draft": draft})
        assert leaks(shown, {theirs["type"]}, MARKER) is None
        api.post("/triggers:preview", {"draft": draft, "event": theirs["event"]}, 404)
        counts = api.send("GET", f"/trees/{ours['shared']}")
        assert MARKER not in str(counts)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_may_not_read_payloads_gets_none_from_any_route(
    role: Any,
    api: ApiClient,
    teams: Teams,
    world: World,
    engine: Functory,
    reads: list[tuple[ApiRoute, list[str]]],
) -> None:
    names = dict(teams.ours)
    row = world.executions.start(names["function"], {"w": PAYLOAD})
    fail(world, row, PAYLOAD)
    names["execution"] = row["id"]
    names["event"] = world.events.emit(
        names["type"], {"w": PAYLOAD}, subject=f"{PAYLOAD}-{role}", dedup_key=f"{PAYLOAD}-{role}"
    )
    world.state.set(names["function"], names["key"], {"w": PAYLOAD})
    world.route()
    with world.database.write() as tx:
        given = {"extensions": {"tenant": PAYLOAD}, "problem": PAYLOAD}
        tx.execute(schema.event.update().where(schema.event.c.id == names["event"]).values(given))
    done = world.executions.start(names["function"], {PAYLOAD: PAYLOAD})
    world.finish(world.claim(done), result={"w": PAYLOAD})
    names["started"] = done["id"]
    names["call"] = ask(engine, PAYLOAD, function=names["function"], execution=done["id"])["id"]
    names |= propose(engine, f"new_{role}", PAYLOAD, labels=[OURS])
    rejected = propose(engine, f"other_{role}", PAYLOAD, labels=[OURS])["proposal"]
    engine.proposals.reject(rejected, feedback=PAYLOAD, author="ada")
    engine.agents.update(names["agent"], {"memo": {"w": PAYLOAD}}, author="ada")
    names["question"] = run_that_asks(world, engine, names["agent"], PAYLOAD, names["child"])["question"]
    names["run"] = run_that_asks(world, engine, names["agent"], PAYLOAD)["run"]
    names["memory"] = engine.memory.add(f"{PAYLOAD} for {role}", author="ada")["id"]
    api.post("/batches", {"action": "replay", "filter": {"q": PAYLOAD}}, 201)
    seen, found = set(), []
    for route, _ in reads:
        for path, asked in paths(route, names):
            path = path.removeprefix("/api/v1")
            if leaks(api.answer("GET", path), asked, PAYLOAD):
                seen.add(route.operation)
            with api.as_(role):
                answer = api.answer("GET", path)
            if (leak := leaks(answer, asked, PAYLOAD)) is not None:
                found.append((path, answer.status_code, leak[:400]))
    with api.as_(role):
        for path, more in (
            ("/state", {"function": names["function"]}),
            ("/executions", {"root": names["event"]}),
        ):
            assert leaks(api.answer("GET", path, params=more), set(), PAYLOAD) is None
    assert not found, "\n".join(map(str, found))
    # Who may read them finds them there.
    assert seen >= {
        "agents.get", "agents.list", "agents.versions", "approvals.get", "approvals.list",
        "batches.list", "calls.get", "events.get", "events.list", "executions.attempts", "executions.get",
        "executions.input",
        "executions.list", "executions.logs", "executions.result", "executions.spans", "executions.why",
        "memories.get", "memories.list",
        "proposals.get", "proposals.list", "runs.get", "runs.list", "runs.steps", "state.get",
        "trees.nodes", "trees.outline", "triggers.flow",
    }  # fmt: skip
