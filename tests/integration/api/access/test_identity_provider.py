"""Logins by an OpenID Connect provider, which runs on a loopback port and lies where a test says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog
from fastapi.testclient import TestClient
from pydantic import SecretStr

from functory.api import create_app
from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.engine.settings import Settings
from tests.support.identity_provider import CLIENT, SECRET, Provider, authorize, provider

LOCAL = "http://127.0.0.1:7400"
ROLES = {"admins": "admin", "operators": "operator", "readers": "viewer"}


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def there(running: Provider) -> Provider:
    running.user = {"sub": "248289761001", "preferred_username": "ada", "groups": ["admins"]}
    running.claims, running.sign = {}, running.signed
    running.asks, running.asked_at = True, int(time.time()) - 3600
    return running


def settings(there: Provider, folder: Path, **more: Any) -> Settings:
    given = {
        "oidc_issuer": there.url, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET, "oidc_roles": ROLES,
    }  # fmt: skip
    return Settings(home=folder / "home", **(given | more))


@pytest.fixture
def functory(there: Provider, tmp_path: Path) -> Iterator[Functory]:
    with Functory(settings(there, tmp_path)) as made:
        yield made


def browser(functory: Functory) -> TestClient:
    return TestClient(create_app(functory), base_url=LOCAL, follow_redirects=False)


def begin(page: TestClient) -> str:
    answer = page.get("/api/v1/login/provider")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def log_in(page: TestClient) -> Any:
    return page.get(authorize(begin(page)))


def refused(answer: Any, failure: str) -> bool:
    """Whether the answer leads to the login page with this code and nothing else, and begins no login."""
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?failed={failure}")
    return "set-cookie" not in answer.headers


def test_a_user_with_a_role_is_made_at_the_first_login_and_follows_the_claim(
    functory: Functory, there: Provider
) -> None:
    page = browser(functory)
    assert page.get("/api/v1/login").json()["provider"] == "single sign-on"
    answer = log_in(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    me = page.get("/api/v1/me").json()
    assert (me["name"], me["role"], me["has_password"]) == ("ada", "admin", False)
    functory.users.create("root", SecretStr("correct horse battery"), role="admin")
    there.user |= {"groups": ["readers", "operators", "others"], "preferred_username": "renamed"}
    log_in(page)
    me = page.get("/api/v1/me").json()
    assert (me["name"], me["role"]) == ("ada", "operator")
    assert [row["name"] for row in functory.users.list()] == ["ada", "root"]


def dangerous(page: TestClient) -> tuple[int, str | None]:
    """The answer to an action that needs the password again."""
    headers = {"origin": LOCAL, "content-type": "application/json"}
    body = {"name": f"user{time.time_ns()}", "password": "correct horse battery", "role": "viewer"}
    answer = page.post("/api/v1/users", json=body, headers=headers)
    return answer.status_code, answer.json().get("needs")


def confirm(page: TestClient) -> Any:
    """Go to the provider once more, and come back. The cookie of the login is not sent from another site."""
    answer = page.get("/api/v1/login/provider", params={"again": "true"})
    back = authorize(answer.headers["location"])
    login = page.cookies.get("functory", "", domain="127.0.0.1")
    page.cookies.delete("functory", domain="127.0.0.1", path="/")
    answer = page.get(back)
    page.cookies.set("functory", login, domain="127.0.0.1", path="/")
    return answer


def test_a_dangerous_action_needs_a_password_that_the_provider_asked_for_again(
    functory: Functory, there: Provider
) -> None:
    page = browser(functory)
    log_in(page)
    before = page.get("/api/v1/me").json()
    assert dangerous(page) == (403, "fresh")
    answer = confirm(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?confirmed=true")
    assert dangerous(page) == (201, None)
    after = page.get("/api/v1/me").json()
    assert after["confirmed_until"] > before["confirmed_until"]
    # It is the same login.
    assert after["login_expires_at"] == before["login_expires_at"]


@pytest.mark.parametrize("asked_at", ["just now", "missing"])
def test_a_login_counts_as_the_password_when_the_provider_asked_for_it_then_or_does_not_say(
    functory: Functory, there: Provider, asked_at: str
) -> None:
    there.claims = {"auth_time": int(time.time()) if asked_at == "just now" else None}
    page = browser(functory)
    log_in(page)
    assert dangerous(page) == (201, None)


@pytest.mark.parametrize(
    "auth_time", [None, "no time", 0, -1, 1e300, True, "an hour ago", "in an hour"], ids=str
)
def test_a_provider_that_did_not_ask_again_confirms_nothing(
    functory: Functory, there: Provider, auth_time: Any
) -> None:
    page = browser(functory)
    log_in(page)
    now = int(time.time())
    there.claims = {
        "auth_time": {"an hour ago": now - 3600, "in an hour": now + 3600}.get(auth_time, auth_time)
    }
    assert refused(confirm(page), "not_asked_again" if auth_time != "no time" else "invalid_answer")
    assert dangerous(page) == (403, "fresh")


def test_a_login_is_confirmed_by_its_own_user_and_while_it_is_open(
    functory: Functory, there: Provider
) -> None:
    page = browser(functory)
    log_in(page)
    there.user = {"sub": "7", "preferred_username": "eve", "groups": ["admins"]}
    assert refused(confirm(page), "another_user")
    assert dangerous(page) == (403, "fresh")
    assert page.get("/api/v1/me").json()["name"] == "ada"
    # Without a login there is nothing to confirm: it is a new one.
    assert log_in(browser(functory)).headers["location"] == "/"
    other = browser(functory)
    answer = other.get(authorize(other.get("/api/v1/login/provider?again=true").headers["location"]))
    assert answer.headers["location"] == "/"
    back = authorize(page.get("/api/v1/login/provider?again=true").headers["location"])
    functory.logins.end_all("ada")
    assert refused(page.get(back), "another_user")


@pytest.mark.parametrize("groups", [[], ["others"], None, "other", [7], {"admins": 1}])
def test_a_user_without_a_role_is_not_let_in_and_not_made(
    functory: Functory, there: Provider, groups: Any
) -> None:
    there.user["groups"] = groups if groups != {"admins": 1} else ["ADMINS"]
    assert refused(log_in(browser(functory)), "no_role")
    assert functory.users.list() == []


def test_a_user_of_the_provider_never_becomes_a_user_of_the_same_name(
    functory: Functory, there: Provider
) -> None:
    functory.users.create("ada", SecretStr("correct horse battery"), role="admin")
    assert refused(log_in(browser(functory)), "name_taken")
    # Nor has a user of the provider a password that somebody could guess.
    there.user["preferred_username"] = "bob"
    page = browser(functory)
    assert log_in(page).headers["location"] == "/"
    headers = {"origin": LOCAL, "content-type": "application/json"}
    answer = page.post("/api/v1/login", json={"name": "bob", "password": ""}, headers=headers)
    assert answer.status_code == 401


def test_a_disabled_user_is_not_let_in(functory: Functory, there: Provider) -> None:
    there.user["groups"] = ["readers"]
    page = browser(functory)
    log_in(page)
    functory.users.set_state("ada", "disabled")
    assert refused(log_in(page), "disabled")
    assert page.get("/api/v1/me").status_code == 401


def test_the_last_admin_does_not_lose_its_role_at_a_login(functory: Functory, there: Provider) -> None:
    page = browser(functory)
    log_in(page)
    there.user["groups"] = ["readers"]
    assert refused(log_in(browser(functory)), "last_admin")
    assert page.get("/api/v1/me").json()["role"] == "admin"


def test_a_name_that_no_user_may_have_is_refused(functory: Functory, there: Provider) -> None:
    there.user["preferred_username"] = "<b>ada</b>"
    assert refused(log_in(browser(functory)), "wrong_name")


def test_a_login_without_tls_is_refused(there: Provider, tmp_path: Path) -> None:
    given = settings(there, tmp_path, host="0.0.0.0", trusted_hosts=["functory.example.com"])
    with Functory(given) as functory:
        page = TestClient(
            create_app(functory), base_url="http://functory.example.com", follow_redirects=False
        )
        assert refused(page.get("/api/v1/login/provider"), "no_tls")


def test_labels_come_from_the_claim(there: Provider, tmp_path: Path) -> None:
    labels = {"readers": ["team:a"], "operators": ["team:b"]}
    with Functory(settings(there, tmp_path, oidc_labels=labels)) as functory:
        page = browser(functory)
        there.user["groups"] = ["operators", "readers"]
        log_in(page)
        assert page.get("/api/v1/me").json()["labels"] == ["team:a", "team:b"]
        there.user["groups"] = ["admins"]
        log_in(page)
        assert page.get("/api/v1/me").json()["labels"] is None


@pytest.mark.parametrize("way", ["unsigned", "signed_by_another", "signed_with_the_public_key"])
def test_a_token_that_the_provider_has_not_signed_is_refused(
    functory: Functory, there: Provider, way: str
) -> None:
    there.sign = getattr(there, way)
    assert refused(log_in(browser(functory)), "invalid_answer")
    assert functory.users.list() == []


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1},
        {"sub": None},
        {"sub": 7},
    ],
    ids=str,
)
def test_a_token_for_another_login_is_refused(
    functory: Functory, there: Provider, claims: dict[str, Any]
) -> None:
    there.claims = claims
    assert refused(log_in(browser(functory)), "invalid_answer")
    assert functory.users.list() == []


def test_an_answer_that_this_browser_has_not_asked_for_is_refused(functory: Functory) -> None:
    page, other = browser(functory), browser(functory)
    back = authorize(begin(other))
    # Login CSRF: the attacker's answer in the victim's browser, without and with a login of its own.
    assert refused(page.get(back), "not_begun")
    own = authorize(begin(page))
    assert refused(page.get(back), "not_begun")
    assert page.get(own + "x").status_code == 303
    page.cookies.set("functory_login_flow", "AAAA", domain="127.0.0.1", path="/api/v1/login")
    assert other.get(back).headers["location"] == "/"
    # A code works once.
    again = browser(functory)
    again.cookies.set("functory_login_flow", "x" * 200)
    assert refused(again.get(back), "not_begun")


def test_what_the_provider_says_is_in_the_log_and_not_in_the_address(functory: Functory) -> None:
    page = browser(functory)
    state = parse_qs(urlsplit(begin(page)).query)["state"][0]
    said = "call 555-0100 <script>"
    with structlog.testing.capture_logs() as logged:
        answer = page.get("/api/v1/login/callback", params={"error": said, "state": state})
    assert refused(answer, "provider_refused")
    assert [entry["failure"] for entry in logged if said in str(entry)] == ["provider_refused"]


def test_a_provider_that_does_not_answer_is_said(tmp_path: Path, there: Provider) -> None:
    with Functory(settings(there, tmp_path, oidc_issuer="http://127.0.0.1:9")) as functory:
        assert refused(browser(functory).get("/api/v1/login/provider"), "provider_unavailable")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"oidc_client_id": None}, "oidc_client_id is not"),
        ({"oidc_roles": {}}, "no user is let in"),
        ({"oidc_issuer": "http://login.example.com"}, "not https"),
    ],
)
def test_settings_with_which_no_login_could_work_are_refused_at_the_start(
    there: Provider, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    with Functory(settings(there, tmp_path, **wrong)) as functory, pytest.raises(Invalid, match=message):
        create_app(functory)
