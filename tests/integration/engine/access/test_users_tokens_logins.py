"""Users, tokens and logins on both databases: what lets someone in, what ends it, and what the audit has of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine.access import credentials, logins, passwords, tokens
from functory.engine.access.logins import Logins, TooManyAttempts, WrongPassword
from functory.engine.access.tokens import Tokens
from functory.engine.access.users import Users
from functory.engine.database import audit, schema
from functory.engine.errors import Conflict, Invalid, NotFound, Refused

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

GOOD = SecretStr("correct horse battery")
OTHER = SecretStr("a whole other sentence")


@pytest.fixture
def users(world: World) -> Users:
    return Users(world.database)


@pytest.fixture
def made(world: World) -> Tokens:
    return Tokens(world.database)


@pytest.fixture
def open_logins(world: World) -> Logins:
    return Logins(world.database)


def entries(world: World, action: str) -> list[dict[str, Any]]:
    return world.rows(schema.audit, schema.audit.c.action == action)


def test_no_table_has_a_password_a_token_or_a_cookie(
    world: World, users: Users, made: Tokens, open_logins: Logins
) -> None:
    users.create("ada", GOOD, role="admin")
    secrets = [GOOD.get_secret_value(), made.create("ada", "ci")["token"], open_logins.new_link()]
    secrets.append(open_logins.log_in("ada", GOOD)[0])
    secrets.append(open_logins.log_in_by_link(open_logins.new_link()))
    stored = repr([world.rows(table) for table in schema.metadata.sorted_tables])
    assert "ada" in stored
    assert not [secret for secret in secrets if secret in stored]


def test_a_name_is_taken_in_every_spelling_and_reserved_names_are_refused(users: Users) -> None:
    assert users.create("Ada", GOOD)["name"] == "ada"
    with pytest.raises(Conflict, match="there is a user ada already"):
        users.create("ADA", GOOD)
    for wrong in ("owner", "functory", "", "a b", "-a", "ä", "a" * 101, "a/b", None):
        with pytest.raises(Invalid):
            users.create(wrong, GOOD)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["sesame", "x" * 12, "adaadaadaada", "y" * 501, ""])
def test_a_password_that_can_be_guessed_is_refused_and_not_repeated(users: Users, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        users.create("ada", SecretStr(text))
    assert not text or text not in str(refused.value)
    assert users.list() == []


def test_the_last_admin_cannot_be_lost(users: Users) -> None:
    users.create("ada", GOOD, role="admin")
    users.create("bob", GOOD, role="operator")
    for change in (
        lambda: users.update("ada", role="author"),
        lambda: users.set_state("ada", "disabled"),
        lambda: users.delete("ada"),
    ):
        with pytest.raises(Conflict, match="ada is the last admin"):
            change()
    users.update("bob", role="admin")
    users.delete("ada")
    assert [row["name"] for row in users.list()] == ["bob"]


def test_an_admin_is_not_limited_by_labels(users: Users) -> None:
    with pytest.raises(Invalid, match="an admin has no labels"):
        users.create("ada", GOOD, role="admin", labels=["team:x"])
    users.create("ada", GOOD, labels=["team:x"])
    with pytest.raises(Invalid, match="an admin has no labels"):
        users.update("ada", role="admin")
    assert users.update("ada", role="admin", everything=True)["labels"] is None


def test_every_change_of_a_user_is_in_the_audit_with_the_hashes_of_before_and_after(
    world: World, users: Users
) -> None:
    with audit.acting("a test"):
        users.create("ada", GOOD, role="admin", author="root")
        users.create("bob", GOOD, author="ada")
        users.update("bob", role="operator", rights=["approve"], author="ada")
        users.update("bob", role="operator", author="ada")
        users.set_state("bob", "disabled", author="ada")
        users.delete("bob", author="ada")
    rows = [row for row in world.rows(schema.audit) if row["subject"] == "bob"]
    assert [row["action"] for row in rows] == ["user.create", "user.update", "user.disable", "user.delete"]
    hashes = [(row["before_sha256"], row["after_sha256"]) for row in rows]
    assert hashes[0][0] is None and hashes[-1][1] is None
    # Each entry begins where the one before has ended.
    assert [before for before, _ in hashes[1:]] == [after for _, after in hashes[:-1]]
    assert len({after for _, after in hashes}) == 4
    assert {(row["author"], row["origin"]) for row in rows} == {("ada", "a test")}
    assert rows[1]["data"] == {"role": "operator", "rights": ["approve"]}


def test_a_login_begins_with_the_right_password_only(users: Users, open_logins: Logins, world: World) -> None:
    users.create("ada", GOOD)
    cookie, user = open_logins.log_in("ADA", GOOD, address="192.0.2.1", agent="a browser")
    found = open_logins.find(cookie)
    assert found is not None
    assert (found["user"]["name"], found["address"], user["name"]) == ("ada", "192.0.2.1", "ada")
    for name, password in (("ada", OTHER), ("stranger", GOOD), ("ada", SecretStr("x" * 100_000))):
        with pytest.raises(WrongPassword):
            open_logins.log_in(name, password, address="192.0.2.1")
    assert open_logins.find(cookie + "x") is None
    (began, *refused) = sorted(entries(world, "login.begin"), key=lambda row: row["refused"])
    assert (began["author"], began["refused"]) == ("ada", False)
    # An unknown name may be a password in the wrong field: it is not written down.
    assert {(row["author"], row["count"]) for row in refused} == {("ada", 2), ("", 1)}


def test_an_unknown_user_costs_as_many_hashes_as_a_known_one(
    users: Users, open_logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.create("ada", GOOD)
    checked: list[str | None] = []
    verify = passwords.verify

    def counted(stored: str | None, password: SecretStr) -> bool:
        checked.append(stored)
        return verify(stored, password)

    monkeypatch.setattr(passwords, "verify", counted)
    for name in ("ada", "stranger"):
        with pytest.raises(WrongPassword):
            open_logins.log_in(name, OTHER)
    assert len(checked) == 2 and checked[1] is None
    assert not verify(None, GOOD)


def test_guessing_is_slowed_down_for_a_user_and_for_an_address(
    world: World, users: Users, open_logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.create("ada", GOOD)
    monkeypatch.setattr(passwords, "verify", lambda stored, password: stored is not None and password == GOOD)

    def attempts(name: str, address: str, server: Logins = open_logins) -> int:
        """How many attempts there are until one is refused without a look at the password."""
        for number in range(200):
            try:
                server.log_in(name, OTHER, address=address)
            except WrongPassword:
                continue
            except TooManyAttempts as error:
                assert 0 < error.retry_after <= 60
                return number
        return 200

    assert attempts("ada", "192.0.2.1") == logins.PER_USER[0]
    # From elsewhere, with the right password too: the attacker may have many addresses.
    with pytest.raises(TooManyAttempts):
        open_logins.log_in("ada", GOOD, address="192.0.2.9")
    # Names of no user count as well, and so do the attempts that a name's own limit has refused.
    counts = [attempts(f"name{n}", "192.0.2.7") for n in range(4)]
    assert sum(counts) + 2 == logins.PER_ADDRESS[0]
    world.advance(61)
    assert open_logins.log_in("ada", GOOD, address="192.0.2.1")[0]
    # Servers share what is counted.
    assert attempts("name9", "192.0.2.7", Logins(world.database)) == 3


def test_the_cookie_that_was_sent_before_a_login_is_worth_nothing_after_it(
    users: Users, open_logins: Logins
) -> None:
    users.create("ada", GOOD)
    planted, _ = open_logins.log_in("ada", GOOD)
    fresh, _ = open_logins.log_in("ada", GOOD, former=planted)
    assert fresh != planted
    assert open_logins.find(planted) is None and open_logins.find(fresh) is not None


def test_a_login_ends_when_nothing_comes_and_at_the_latest_after_a_week(
    world: World, users: Users, open_logins: Logins
) -> None:
    users.create("ada", GOOD)
    idle, _ = open_logins.log_in("ada", GOOD)
    world.advance(logins.IDLE.total_seconds() - 1)
    assert open_logins.find(idle) is not None
    world.advance(logins.IDLE.total_seconds() + 1)
    assert open_logins.find(idle) is None
    busy, _ = open_logins.log_in("ada", GOOD)
    for _ in range(13):
        world.advance(logins.IDLE.total_seconds() - 60)
        assert open_logins.find(busy) is not None
    world.advance(logins.IDLE.total_seconds())
    assert open_logins.find(busy) is None
    assert open_logins.list() == []
    # The rows go with the next login.
    open_logins.log_in("ada", GOOD)
    assert len(world.rows(schema.login)) == 1


def test_what_takes_access_away_ends_the_logins(users: Users, open_logins: Logins, world: World) -> None:
    users.create("root", GOOD, role="admin")
    users.create("ada", GOOD)
    for take in (
        lambda: users.set_password("ada", GOOD),
        lambda: users.set_state("ada", "disabled"),
        lambda: open_logins.end_all("ada"),
        lambda: open_logins.end(open_logins.list("ada")[0]["id"]),
        lambda: users.delete("ada"),
    ):
        users.set_state("ada", "active")
        cookie, _ = open_logins.log_in("ada", GOOD)
        (row,) = open_logins.list("ada")
        generation = world.database.wakeup.generation("access")
        assert open_logins.with_id(row["id"]) is not None
        take()
        assert open_logins.find(cookie) is None
        assert open_logins.with_id(row["id"]) is None
        # Open streams of it look at once.
        assert world.database.wakeup.generation("access") > generation


def test_a_password_is_hashed_anew_when_the_parameters_have_changed(
    world: World, users: Users, open_logins: Logins
) -> None:
    from argon2 import PasswordHasher

    users.create("ada", GOOD)
    weak = PasswordHasher(time_cost=1, memory_cost=1024).hash(GOOD.get_secret_value())
    with world.database.write() as tx:
        tx.execute(sa.update(schema.user_account).values(password=weak))
    open_logins.log_in("ada", GOOD)
    (stored,) = [row["password"] for row in world.rows(schema.user_account)]
    assert stored != weak and not passwords.needs_rehash(stored)
    assert open_logins.log_in("ada", GOOD)[0]


def test_a_login_link_works_once_and_not_for_long(world: World, open_logins: Logins) -> None:
    used, late = open_logins.new_link(), open_logins.new_link()
    cookie = open_logins.log_in_by_link(used)
    found = open_logins.find(cookie)
    assert found is not None and found["user"] is None
    world.advance(logins.LINK_LIFETIME.total_seconds())
    for text in (used, late, "never", ""):
        with pytest.raises(Refused, match="the link does not work"):
            open_logins.log_in_by_link(text)


def test_a_token_lets_in_until_it_expires_or_is_revoked(world: World, users: Users, made: Tokens) -> None:
    users.create("ada", GOOD, role="operator")
    text = made.create("ada", "ci", lifetime=timedelta(days=1), author="ada")["token"]
    short = made.create("ada", "short", lifetime=timedelta(hours=1))
    found = made.find(text)
    assert found is not None and found["user"]["name"] == "ada"
    assert made.list("ada")[0]["last_used_at"] == world.clock.now()
    world.advance(3600)
    assert made.find(short["token"]) is None and made.with_id(short["id"]) is None
    assert made.find(text) is not None
    made.revoke(found["id"], author="ada")
    assert made.find(text) is None
    with pytest.raises(NotFound):
        made.revoke(found["id"])
    (entry,) = entries(world, "token.revoke")
    assert (entry["subject"], entry["before_sha256"]) == (
        "ada/ci",
        entries(world, "token.create")[0]["after_sha256"],
    )


def test_a_token_of_an_admin_is_not_limited_by_labels(users: Users, made: Tokens) -> None:
    users.create("ada", GOOD, role="admin")
    for role in (None, "admin"):
        with pytest.raises(Invalid, match="an admin's token has no labels"):
            made.create("ada", "ci", role=role, labels=["team:x"])
    assert made.create("ada", "ci", role="author", labels=["team:x"])["labels"] == ["team:x"]


def test_a_token_of_a_disabled_user_is_refused(users: Users, made: Tokens) -> None:
    users.create("ada", GOOD)
    text = made.create("ada", "ci")["token"]
    users.set_state("ada", "disabled")
    assert made.find(text) is None
    with pytest.raises(Refused, match="ada is disabled"):
        made.create("ada", "other")
    users.set_state("ada", "active")
    assert made.find(text) is not None


def test_a_token_has_at_most_what_its_user_has(users: Users, made: Tokens) -> None:
    users.create("ada", GOOD, role="operator", labels=["team:a", "team:b"])
    assert made.create("ada", "all")["labels"] == ["team:a", "team:b"]
    assert made.create("ada", "one", labels=["team:a"])["labels"] == ["team:a"]
    more: tuple[dict[str, Any], ...] = (
        {"role": "admin"}, {"rights": ["payload:read"]}, {"labels": ["team:c"]},
    )  # fmt: skip
    for given in more:
        with pytest.raises(Refused):
            made.create("ada", "more", **given)
    with pytest.raises(Conflict, match="has a token 'all' already"):
        made.create("ada", "all")
    for wrong in (timedelta(), timedelta(days=10_000)):
        with pytest.raises(Invalid, match="lifetime"):
            made.create("ada", "x", lifetime=wrong)


def test_the_number_of_tokens_is_bounded(users: Users, made: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 2)
    users.create("ada", GOOD)
    for name in ("one", "two"):
        made.create("ada", name)
    with pytest.raises(Conflict, match="revoke one first"):
        made.create("ada", "three")


def test_refused_attempts_have_one_entry_a_minute_with_a_count(world: World) -> None:
    for _ in range(3):
        with audit.acting("http 192.0.2.1"):
            audit.record_refused(
                world.database, "ada", "DELETE /functions/{name}", "/api/v1/functions/x" + "y" * 500
            )
    with audit.acting("http 192.0.2.2"):
        audit.record_refused(world.database, "ada", "DELETE /functions/{name}", "/api/v1/functions/z")
        audit.record_refused(world.database, "bob", "DELETE /functions/{name}", "/api/v1/functions/z")
    world.advance(60)
    audit.record_refused(world.database, "ada", "DELETE /functions/{name}", "/api/v1/functions/z")
    rows = world.rows(schema.audit)
    assert sorted((row["author"], row["count"], row["refused"]) for row in rows) == [
        ("ada", 1, True), ("ada", 4, True), ("bob", 1, True),
    ]  # fmt: skip
    assert all(len(row["subject"]) <= audit.MAX_REFUSED_CHARACTERS for row in rows)


def test_a_text_that_only_looks_like_a_token_is_not_looked_up() -> None:
    text = credentials.new_token()
    assert credentials.is_token(text) and credentials.has_token(f"/x?y={text}&z=1")
    for wrong in (
        text[:-1],
        text + "0",
        text.upper(),
        "fnc_" + text[5:] + "0",
        text.replace("fnc_", "abc_"),
        "",
        "fnc_",
    ):
        assert not credentials.is_token(wrong)
    assert not credentials.has_token("/functions/fnc_parse")
