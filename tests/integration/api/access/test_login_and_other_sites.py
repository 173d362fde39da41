"""Access over HTTP: logins, tokens, requests of other sites, hosts, headers, and what the audit has of refusals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
import structlog
from fastapi.testclient import TestClient
from pydantic import SecretStr

from functory.api import create_app
from functory.api.access.security_headers import HEADERS
from functory.client.functory import Functory
from functory.engine.access import credentials, logins
from functory.engine.database import schema
from functory.engine.settings import Settings

GOOD = "correct horse battery"
LOCAL = "http://127.0.0.1:7400"

pytest_plugins = ["tests.support.world"]


class Page:
    """A page of ours in a browser: it sends the cookie, and what browsers add to its requests."""

    def __init__(self, functory: Functory, base: str = LOCAL, *, owner: bool = False) -> None:
        self.base = base
        self.client = TestClient(create_app(functory, owner=owner), base_url=base)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        own = {"origin": self.base, "sec-fetch-site": "same-origin", "content-type": "application/json"}
        sent = {} if method == "GET" else own
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        json = {} if body is None else {"json": body}
        return self.client.request(method, f"/api/v1{path}", headers=sent, **json)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return self.send("POST", path, body, **headers)

    def log_in(self, name: str = "ada", password: str = GOOD) -> Page:
        answer = self.post("/login", {"name": name, "password": password})
        assert answer.status_code == 204, answer.text
        return self


@pytest.fixture
def functory(tmp_path: Path) -> Iterator[Functory]:
    with Functory(Settings(home=tmp_path / "home"), author="tester") as made:
        yield made


@pytest.fixture
def ada(functory: Functory) -> dict[str, Any]:
    return functory.users.create("ada", SecretStr(GOOD), role="admin")


def audited(functory: Functory, *conditions: Any) -> list[dict[str, Any]]:
    with functory.database.read() as tx:
        return tx.rows(sa.select(schema.audit).where(*conditions))


def refusals(functory: Functory) -> list[tuple[str, str, int]]:
    rows = audited(functory)
    return [(row["author"], row["action"], row["count"]) for row in rows if row["refused"]]


def test_without_an_admin_the_answer_says_how_to_make_one(functory: Functory) -> None:
    page = Page(functory)
    answer = page.get("/me")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["try"] == "functory user create NAME --role admin"
    assert page.get("/login").json()["advice"] == "functory user create NAME --role admin"


def test_a_user_logs_in_sees_itself_and_logs_out(functory: Functory, ada: Any) -> None:
    page = Page(functory).log_in()
    me = page.get("/me").json()
    assert (me["name"], me["kind"], me["role"], me["labels"]) == ("ada", "user", "admin", None)
    assert datetime.fromisoformat(me["login_expires_at"]) > functory.database.clock.now()
    assert (
        page.client.request("PATCH", "/api/v1/me", json={"preferences": {"theme": "dark"}}).status_code == 403
    )
    assert page.send("PATCH", "/me", {"preferences": {"theme": "dark"}}).json()["preferences"] == {
        "theme": "dark"
    }
    cookie = page.client.cookies["functory"]
    assert page.post("/logout").status_code == 204
    assert page.get("/me").status_code == 401
    # The cookie is worth nothing, also for who has copied it.
    page.client.cookies.clear()
    assert page.get("/me", cookie=f"functory={cookie}").status_code == 401


def test_the_cookie_cannot_be_read_by_scripts_nor_sent_by_other_sites(functory: Functory, ada: Any) -> None:
    set_ = Page(functory).post("/login", {"name": "ada", "password": GOOD}).headers["set-cookie"]
    assert (
        set_.startswith("functory=") and "HttpOnly" in set_ and "SameSite=strict" in set_ and "Path=/" in set_
    )
    assert "Secure" not in set_


def test_over_tls_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    url = "https://functory.example.com"
    with Functory(Settings(home=tmp_path, host="0.0.0.0", public_url=url)) as functory:
        functory.users.create("ada", SecretStr(GOOD), role="admin")
        page = Page(functory, url)
        set_ = page.post("/login", {"name": "ada", "password": GOOD}).headers["set-cookie"]
        assert set_.startswith("__Host-functory=") and "Secure" in set_ and "Domain" not in set_
        assert page.get("/me").status_code == 200
        assert "strict-transport-security" in page.get("/me").headers
        # Without TLS, from another machine: the password would be readable on the way.
        plain = Page(functory, "http://192.0.2.8:7400").post("/login", {"name": "ada", "password": GOOD})
        assert plain.status_code == 403 and "TLS" in plain.json()["title"]


def test_a_proxy_that_is_not_believed_is_logged_once(functory: Functory, ada: Any) -> None:
    page = Page(functory)
    named = {"name": "ada", "password": GOOD}
    with structlog.testing.capture_logs() as lines:
        page.post("/login", named, x_forwarded_for="testclient")
        page.post("/login", named)
        page.post("/login", named, x_forwarded_for="203.0.113.9")
        page.post("/login", named, x_forwarded_for="203.0.113.10")
    warned = [line["proxy"] for line in lines if "proxy" in line]
    assert warned == ["testclient"]


def test_a_login_never_takes_over_the_cookie_of_the_browser(functory: Functory, ada: Any) -> None:
    page = Page(functory)
    page.client.cookies.set("functory", "planted", domain="127.0.0.1", path="/")
    page.log_in()
    first = page.client.cookies["functory"]
    assert first != "planted"
    page.log_in()
    assert page.client.cookies["functory"] != first
    page.client.cookies.clear()
    assert page.get("/me", cookie=f"functory={first}").status_code == 401


def test_wrong_passwords_all_get_the_same_answer_and_then_must_wait(functory: Functory, ada: Any) -> None:
    page = Page(functory)
    known = page.post("/login", {"name": "ada", "password": "wrong"})
    unknown = page.post("/login", {"name": "stranger", "password": "wrong"})
    assert known.status_code == 401 and known.json() == unknown.json()
    answers = [
        page.post("/login", {"name": "ada", "password": f"guess {n}"}) for n in range(logins.PER_USER[0])
    ]
    assert answers[-1].status_code == 429
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert page.post("/login", {"name": "ada", "password": GOOD}).status_code == 429
    for answer in answers:
        assert "guess" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "ada"},
        {"password": GOOD},
        {"name": "ada", "password": GOOD, "link": "x"},
        {"name": "ada", "password": GOOD, "role": "admin"},
        {"name": ["ada"], "password": GOOD},
        [],
    ],
)
def test_a_login_of_another_form_is_refused_and_repeats_no_password(
    functory: Functory, ada: Any, body: Any
) -> None:
    answer = Page(functory).post("/login", body)
    assert answer.status_code == 422
    assert GOOD not in answer.text


def test_a_link_logs_the_owner_of_functory_dev_in_once(functory: Functory) -> None:
    page = Page(functory, owner=True)
    link = functory.logins.new_link()
    assert page.post("/login", {"link": link}).status_code == 204
    me = page.get("/me").json()
    assert (me["name"], me["kind"], me["role"]) == ("tester", "owner", "admin")
    again = Page(functory, owner=True).post("/login", {"link": link})
    assert again.status_code == 403 and again.json()["try"] == "functory dashboard link"
    # A server with users takes neither the link nor the owner's cookie.
    server = Page(functory)
    assert server.post("/login", {"link": functory.logins.new_link()}).status_code == 403
    cookie = page.client.cookies["functory"]
    assert server.get("/me", cookie=f"functory={cookie}").status_code == 401


FOREIGN: dict[str, dict[str, str]] = {
    "a form of another site": {
        "origin": "https://evil.example",
        "content_type": "application/x-www-form-urlencoded",
        "sec_fetch_site": "cross-site",
    },
    "another origin": {"origin": "https://evil.example"},
    "a sandboxed frame": {"origin": "null"},
    "another port": {"origin": "http://127.0.0.1:7401"},
    "another scheme": {"origin": "https://127.0.0.1:7400"},
    "a site beside ours": {"sec_fetch_site": "same-site"},
    "no site": {"sec_fetch_site": "none"},
    "a text": {"content_type": "text/plain"},
    "no type": {"content_type": ""},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_a_request_of_another_site_changes_nothing(
    functory: Functory, ada: Any, headers: dict[str, str]
) -> None:
    page = Page(functory).log_in()
    answer = page.send("PATCH", "/me", {"preferences": {"a": 1}}, **headers)
    assert answer.status_code == 403
    assert page.get("/me").json()["preferences"] == {}
    assert ("", "PATCH /api/v1/me", 1) in refusals(functory)
    # Nor does it log somebody in or out.
    assert page.post("/logout", **headers).status_code == 403
    assert page.post("/login", {"name": "ada", "password": GOOD}, **headers).status_code in (403, 415, 422)
    assert page.get("/me").status_code == 200


def test_a_request_without_an_origin_and_with_a_cookie_is_refused(functory: Functory, ada: Any) -> None:
    page = Page(functory).log_in()
    assert page.client.patch("/api/v1/me", json={"preferences": {"a": 1}}).status_code == 403


HOSTS = {
    "127.0.0.1:7400": 200,
    "localhost:7400": 200,
    "LOCALHOST": 200,
    "[::1]:7400": 200,
    "evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "localhost.evil.example:7400": 421,
    "192.0.2.1:7400": 421,
    "": 421,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
def test_a_server_on_this_machine_answers_to_names_of_this_machine_alone(
    functory: Functory, host: str, status: int
) -> None:
    assert Page(functory).get("/login", host=host).status_code == status


def test_a_server_for_others_answers_to_addresses_and_to_names_that_it_was_given(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, host="0.0.0.0", public_url="https://a.example", trusted_hosts=["B.example"]
    )
    with Functory(settings) as functory:
        page = Page(functory)
        statuses = {
            host: page.get("/login", host=host).status_code
            for host in ("192.0.2.1:7400", "a.example", "b.example:7400", "A.EXAMPLE.", "c.example")
        }
    assert statuses == {
        "192.0.2.1:7400": 200, "a.example": 200, "b.example:7400": 200, "A.EXAMPLE.": 200, "c.example": 421,
    }  # fmt: skip


def test_a_token_lets_programs_in_without_an_origin(functory: Functory, ada: Any) -> None:
    made = functory.tokens.create("ada", "ci", role="viewer")
    page = Page(functory)
    headers = {"authorization": f"Bearer {made['token']}"}
    me = page.get("/me", **headers).json()
    assert (me["name"], me["kind"], me["rights"]) == ("ada", "token", ["view"])
    refused = page.client.post("/api/v1/users", json={"name": "bob"}, headers=headers)
    assert (refused.status_code, refused.json()["needs"]) == (403, "admin")
    # The route is named as the metrics name it.
    assert [refused for refused in refusals(functory) if refused[0] == "ada"] == [
        ("ada", "POST /api/v1/users", 1)
    ]
    functory.tokens.revoke(made["id"])
    assert page.get("/me", **headers).status_code == 401


@pytest.mark.parametrize(
    "authorization", ["Bearer", "Bearer x", "Basic YWRhOmFkYQ==", "bearer fnc_" + "0" * 49, "", "Bearer é"]
)
def test_a_wrong_token_is_refused_even_beside_a_good_cookie(
    functory: Functory, ada: Any, authorization: str
) -> None:
    page = Page(functory).log_in()
    answer = page.client.get("/api/v1/me", headers={"authorization": authorization.encode("latin-1")})
    assert answer.status_code == 401
    assert ("", "api.authentication", 1) in refusals(functory)


def test_two_headers_with_a_token_are_refused(functory: Functory, ada: Any) -> None:
    text = functory.tokens.create("ada", "ci")["token"]
    given = [("authorization", f"Bearer {text}")] * 2
    assert Page(functory).client.get("/api/v1/me", headers=given).status_code == 401


@pytest.mark.parametrize("place", ["/me?token={}", "/me?x=a%66nc{}", "/functions/{}", "/users?user={}"])
def test_a_token_in_an_address_is_refused_and_not_repeated(
    functory: Functory, ada: Any, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = functory.tokens.create("ada", "ci")["token"]
    given = text.removeprefix("fnc") if "%66nc" in place else text
    answer = Page(functory).get(place.format(given), authorization=f"Bearer {text}")
    assert answer.status_code == 400 and "revoke this token" in answer.json()["try"]
    assert text not in answer.text and text not in caplog.text
    assert text not in repr(audited(functory))


def test_a_token_never_gains_what_its_user_has_lost(functory: Functory, ada: Any) -> None:
    functory.users.create("bob", SecretStr(GOOD), role="author")
    text = functory.tokens.create("bob", "ci")["token"]
    page = Page(functory)

    def rights() -> list[str]:
        return page.get("/me", authorization=f"Bearer {text}").json()["rights"]

    assert rights() == ["view", "operate", "author", "payload:read"]
    functory.users.update("bob", role="viewer")
    assert rights() == ["view"]
    functory.users.update("bob", role="admin")
    assert "admin" not in rights()


def test_a_token_makes_no_tokens_and_none_is_made_for_others(functory: Functory, ada: Any) -> None:
    functory.users.create("bob", SecretStr(GOOD), role="operator")
    text = functory.tokens.create("bob", "ci")["token"]
    program = Page(functory).post("/tokens", {"name": "more"}, authorization=f"Bearer {text}")
    assert program.status_code == 403
    bob = Page(functory).log_in("bob")
    made = bob.post("/tokens", {"name": "mine", "role": "viewer", "days": 3})
    assert made.status_code == 201 and credentials.is_token(made.json()["token"])
    assert bob.post("/tokens", {"name": "theirs", "user": "ada"}).status_code == 403
    assert bob.post("/tokens", {"name": "more", "role": "admin"}).status_code == 403
    listed = bob.get("/tokens").json()["items"]
    assert [row["name"] for row in listed] == ["ci", "mine"] and "token" not in listed[0]
    other = functory.tokens.create("ada", "ci")
    assert bob.send("DELETE", f"/tokens/{other['id']}").status_code == 404
    assert bob.send("DELETE", f"/tokens/{listed[0]['id']}").status_code == 204


def test_a_user_ends_its_own_logins_and_an_admin_those_of_others(functory: Functory, ada: Any) -> None:
    functory.users.create("bob", SecretStr(GOOD))
    root, bob, elsewhere = (Page(functory).log_in(name) for name in ("ada", "bob", "bob"))
    assert len(root.get("/logins").json()["items"]) == 3
    mine = bob.get("/logins").json()["items"]
    assert [row["user"] for row in mine] == ["bob", "bob"] and sum(row["current"] for row in mine) == 1
    (other,) = [row["id"] for row in mine if not row["current"]]
    assert bob.send("DELETE", f"/logins/{other}").status_code == 204
    assert elsewhere.get("/me").status_code == 401
    (roots,) = [
        row["id"]
        for row in root.get(
            "/logins",
        ).json()["items"]
        if row["current"]
    ]
    assert bob.send("DELETE", f"/logins/{roots}").status_code == 404
    assert root.send("DELETE", f"/logins/{bob.get('/logins').json()['items'][0]['id']}").status_code == 204
    assert bob.get("/me").status_code == 401


def test_dangerous_actions_need_the_password_again_after_a_quarter_of_an_hour(
    functory: Functory, ada: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(functory).log_in()
    new = {"name": "bob", "password": GOOD}
    clock = functory.database.clock
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(minutes=16))
    stale = page.post("/users", new)
    assert (stale.status_code, stale.json()["needs"]) == (403, "fresh")
    assert page.post("/me:confirm", {"password": "wrong"}).status_code == 401
    assert page.post("/users", new).status_code == 403
    assert page.post("/me:confirm", {"password": GOOD}).status_code == 204
    assert page.post("/users", new).status_code == 201


def test_a_changed_password_ends_the_other_logins(functory: Functory, ada: Any) -> None:
    page, elsewhere = Page(functory).log_in(), Page(functory).log_in()
    change = {"password": GOOD, "new_password": "another long sentence"}
    assert page.post("/me:password", change | {"password": "wrong"}).status_code == 401
    assert page.post("/me:password", change | {"new_password": "short"}).status_code == 400
    assert elsewhere.get("/me").status_code == 200
    assert page.post("/me:password", change).status_code == 204
    assert (page.get("/me").status_code, elsewhere.get("/me").status_code) == (200, 401)
    assert Page(functory).post("/login", {"name": "ada", "password": GOOD}).status_code == 401


def test_an_admin_makes_changes_and_deletes_users(functory: Functory, ada: Any) -> None:
    page = Page(functory).log_in()
    made = page.post("/users", {"name": "Bob", "password": GOOD, "role": "operator", "labels": ["team:x"]})
    assert (made.status_code, made.json()["name"], made.json()["labels"]) == (201, "bob", ["team:x"])
    bob = Page(functory).log_in("bob")
    changed = page.send("PATCH", "/users/bob", {"labels": None, "rights": ["approve"]}).json()
    assert (changed["role"], changed["labels"], changed["rights"]) == ("operator", None, ["approve"])
    assert bob.get("/me").json()["rights"] == ["view", "operate", "approve"]
    assert page.send("PATCH", "/users/bob", {"state": "disabled"}).json()["state"] == "disabled"
    assert bob.get("/me").status_code == 401
    assert page.send("PATCH", "/users/ada", {"role": "viewer"}).status_code == 409
    # Both, or neither.
    assert page.send("PATCH", "/users/ada", {"rights": ["approve"], "state": "disabled"}).status_code == 409
    assert page.send("GET", "/users/ada").json()["rights"] == []
    assert page.send("PATCH", "/users/bob", {"password": "x"}).status_code == 422
    assert page.send("DELETE", "/users/bob").status_code == 204
    assert page.get("/users/bob").status_code == 404
    assert [row["name"] for row in page.get("/users").json()["items"]] == ["ada"]
    entries = audited(functory, schema.audit.c.action == "user.update")
    assert {(row["author"], row["origin"]) for row in entries} == {("ada", "login at testclient")}


def test_every_answer_tells_browsers_what_they_may_do_with_it(functory: Functory) -> None:
    page = Page(functory)
    for path in ("/healthz", "/api/v1/login", "/api/v1/me", "/api/v1/nothing", "/nothing"):
        answer = page.client.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
    assert page.client.get("/api/v1/login").headers["cache-control"] == "no-store"


def test_without_the_api_webhooks_and_health_stay(tmp_path: Path) -> None:
    with Functory(Settings(home=tmp_path, api="off")) as functory:
        client = TestClient(create_app(functory), base_url=LOCAL)
        assert client.get("/api/v1/login").status_code == 404
        assert client.get("/healthz").status_code == 200
        assert client.post("/webhooks/nothing").status_code in (401, 404)
