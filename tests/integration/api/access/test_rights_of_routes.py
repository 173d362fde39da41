"""Every route of the API as every role: the routes of the application, and the rights that they declare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from functory.api import create_app
from functory.api.access.rights import OF_ROLE, RIGHTS, ROLES, Caller, Role
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.support.api_client import ApiClient
from tests.support.api_routes import ApiRoute, api_routes

LOCAL = "http://127.0.0.1:7400"
# Nothing has this id or name.
UNKNOWN = "01998c5e-0000-7000-8000-000000000000"
# Answers that do not end.
ENDLESS = ("stream.open",)
# Changes of what belongs to the whole installation: no caller with labels makes them.
UNLIMITED = (
    "secrets.set", "secrets.delete", "sources.save", "sources.delete", "sources.pause", "sources.resume",
    "switches.halt", "switches.release", "schedules.trigger", "schedules.backfill", "models.test",
)  # fmt: skip


@pytest.fixture(scope="module")
def functory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    with Functory(Settings(home=tmp_path_factory.mktemp("rights"))) as made:
        yield made


@pytest.fixture(scope="module")
def routes(functory: Functory) -> list[ApiRoute]:
    found = api_routes(create_app(functory))
    assert len(found) > 90
    return found


@pytest.fixture(scope="module")
def api(functory: Functory) -> ApiClient:
    return ApiClient(functory)


def answer(api: ApiClient, route: ApiRoute) -> tuple[int, str | None]:
    """The status, and what is missing."""
    body = None if route.method in ("GET", "DELETE") else {}
    sent = api.answer(route.method, route.filled(UNKNOWN).removeprefix("/api/v1"), body)
    problem = sent.headers["content-type"] == "application/problem+json" if sent.content else False
    return sent.status_code, sent.json().get("needs") if problem else None


def test_every_route_declares_its_rights_and_its_name(routes: list[ApiRoute]) -> None:
    assert [route for route in routes if route.rights is None] == []
    assert [route for route in routes if not route.rights and not route.is_open] == []
    assert [route for route in routes if not set(route.rights or ()) <= set(RIGHTS)] == []
    names = [route.operation for route in routes]
    assert len(set(names)) == len(names) and all(name.count(".") == 1 for name in names)
    # What changes something needs more than to look, unless it is the caller's own.
    own = ("me.", "tokens.", "logins.", "login.")
    changing = [route for route in routes if route.method != "GET" and not route.operation.startswith(own)]
    assert [route for route in changing if set(route.rights or ()) <= {"view", "payload:read"}] == []


@pytest.mark.parametrize("role", ROLES)
def test_a_role_gets_what_its_rights_allow_and_is_refused_all_else(
    api: ApiClient, routes: list[ApiRoute], role: Role
) -> None:
    wrong = []
    with api.as_(role):
        for route in routes:
            missing = [right for right in route.rights or () if right not in OF_ROLE[role]]
            if route.is_open or (route.operation in ENDLESS and not missing):
                continue
            status, needs = answer(api, route)
            right = (status, needs) == (403, missing[0]) if missing else needs not in RIGHTS and status < 500
            if not right:
                wrong.append((route, status, needs))
    assert wrong == []


def test_each_right_alone_opens_nothing_that_needs_another(api: ApiClient, routes: list[ApiRoute]) -> None:
    wrong = []
    for right in RIGHTS:
        alone = Caller("ada", "user", "viewer", frozenset({right}))
        before, api._caller = api._caller, alone
        for route in routes:
            missing = [needed for needed in route.rights or () if needed != right]
            if missing and not route.is_open:
                status, needs = answer(api, route)
                if (status, needs) != (403, missing[0]):
                    wrong.append((right, route, status, needs))
        api._caller = before
    assert wrong == []


def test_a_stranger_gets_nothing_but_the_login(functory: Functory, routes: list[ApiRoute]) -> None:
    client = TestClient(create_app(functory), base_url=LOCAL)
    headers = {"origin": LOCAL, "content-type": "application/json"}
    statuses = {
        route: client.request(route.method, route.filled(UNKNOWN), json={}, headers=headers).status_code
        for route in routes
    }
    assert [
        (route, status) for route, status in statuses.items() if status != 401 and not route.is_open
    ] == []
    assert {status for route, status in statuses.items() if route.is_open} <= {200, 204, 422}


def test_a_viewers_token_is_a_viewer_whatever_its_user_is(functory: Functory, routes: list[ApiRoute]) -> None:
    functory.users.create("ada", SecretStr("correct horse battery"), role="admin")
    text = functory.tokens.create("ada", "ci", role="viewer")["token"]
    client = TestClient(create_app(functory), base_url=LOCAL, headers={"authorization": f"Bearer {text}"})
    for route in routes:
        missing = [right for right in route.rights or () if right not in OF_ROLE["viewer"]]
        if missing:
            sent = client.request(route.method, route.filled(UNKNOWN), json={})
            assert (sent.status_code, sent.json()["needs"]) == (403, missing[0]), route


def test_a_caller_with_labels_changes_nothing_of_the_whole_installation(
    api: ApiClient, routes: list[ApiRoute]
) -> None:
    with api.as_("author", labels=["team:a"]):
        refused = {route.operation: answer(api, route) for route in routes if route.operation in UNLIMITED}
    assert refused == dict.fromkeys(UNLIMITED, (403, "no labels"))


def test_a_route_without_a_right_would_be_found(tmp_path: Path) -> None:
    from functory.api.resources import me

    def leak() -> dict[str, str]:
        return {}

    with Functory(Settings(home=tmp_path)) as functory:
        kept = list(me.router.routes)
        me.router.add_api_route("/leak", leak, operation_id="me.leak")
        try:
            found = {route.operation: route.rights for route in api_routes(create_app(functory))}
        finally:
            me.router.routes[:] = kept
    assert found["me.leak"] is None and found["me.get"] == ("view",)
