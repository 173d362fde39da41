"""What the engine keeps for functions: their state, and secrets that are opened only with the key."""

import base64
import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from functory.engine.access.secrets import Secrets
from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.settings import Settings

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def test_state_is_a_value_by_function_and_key_with_a_version(world):
    assert world.state.get("work", "seen") is None
    assert [world.state.set("work", "seen", n) for n in range(3)] == [1, 2, 3]
    world.state.set("other", "seen", "theirs")
    assert world.state.get("work", "seen") == (2, 3)
    assert world.state.delete("work", "seen")
    assert not world.state.delete("work", "seen")
    assert world.state.get("other", "seen") == ("theirs", 1)


def test_state_compares_before_it_sets(world):
    world.state.set("work", "n", 1, expected_version=0)
    with pytest.raises(Conflict, match="it is at version 1, you expected 0"):
        world.state.set("work", "n", 2, expected_version=0)
    assert world.state.set("work", "n", 2, expected_version=1) == 2
    with pytest.raises(Conflict):
        world.state.set("work", "new", 1, expected_version=3)


def test_a_wrong_state_key_is_refused(world):
    for key in ("", "x" * 256, None, 5, "a\x00", "\ud800"):
        with pytest.raises(Invalid, match="state key"):
            world.state.set("work", key, 1)


def test_a_state_value_of_more_than_64_kib_is_refused(world):
    with pytest.raises(Invalid, match="too large"):
        world.state.set("work", "key", "x" * 65_536)
    assert world.state.get("work", "key") is None


def test_counting_with_compare_and_set_loses_nothing(world):
    def count() -> None:
        for _ in range(10):
            while True:
                found = world.state.get("work", "n") or (0, 0)
                try:
                    world.state.set("work", "n", found[0] + 1, expected_version=found[1])
                except Conflict:
                    continue
                break

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.state.get("work", "n") == (30, 30)


def test_a_secret_is_sealed_and_comes_back(world):
    assert world.secrets.set("API_KEY", "hunter2") == 1
    assert world.secrets.open("API_KEY").get_secret_value() == "hunter2"
    (row,) = world.rows(schema.secret)
    assert b"hunter2" not in bytes(row["sealed"])
    assert "hunter2" not in repr(world.secrets.list()) + repr(world.secrets.open("API_KEY"))
    assert world.secrets.missing(["API_KEY", "OTHER"]) == ["OTHER"]


def test_a_new_value_is_a_new_version_and_its_event_is_without_the_value(world):
    world.secrets.set("API_KEY", "hunter2")
    assert world.secrets.set("API_KEY", "hunter3") == 2
    assert world.secrets.open("API_KEY").get_secret_value() == "hunter3"
    (event,) = world.rows(schema.event, schema.event.c.type == "secret.rotated")
    assert event["data"] == {"secret": "API_KEY", "version": 2, "author": ""}


def test_a_wrong_value_is_refused_for_new_and_for_known_names(world):
    world.secrets.set("KNOWN", "hunter2")
    for value in ("", "x" * 65_537, "\ud800"):
        for name in ("KNOWN", "NEW"):
            with pytest.raises(Invalid, match="wrong secret value") as caught:
                world.secrets.set(name, value)
            assert not value or value not in str(caught.value)
    assert world.secrets.missing(["KNOWN", "NEW"]) == ["NEW"]
    assert world.secrets.open("KNOWN").get_secret_value() == "hunter2"


def test_a_wrong_name_is_refused(world):
    for name in ("", "a b", "a\x00", "ключ", "x" * 300):
        with pytest.raises(Invalid, match="is not a secret name"):
            world.secrets.set(name, "hunter2")


def test_a_deleted_secret_is_gone(world):
    world.secrets.set("API_KEY", "hunter2")
    world.secrets.delete("API_KEY")
    for use in (world.secrets.open, world.secrets.delete):
        with pytest.raises(NotFound, match="API_KEY"):
            use("API_KEY")


def test_two_processes_that_set_a_new_secret_together_both_succeed(make_world):
    worlds = [make_world() for _ in range(4)]
    worlds[0].secrets.set("FIRST", "makes the key")
    barrier, failures = threading.Barrier(4), []

    def put(world: "World", n: int) -> None:
        barrier.wait()
        try:
            for m in range(5):
                world.secrets.set(f"KEY{m}", f"value{n}")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=put, args=pair) for pair in zip(worlds, range(4), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [row["version"] for row in worlds[0].secrets.list() if row["name"] != "FIRST"] == [4] * 5
    assert all(worlds[0].secrets.open(f"KEY{m}").get_secret_value().startswith("value") for m in range(5))


def test_the_key_is_made_once_readable_by_its_owner_only(world):
    world.secrets.set("API_KEY", "hunter2")
    file = world.home / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = Secrets(world.database, world.settings)
    assert again.open("API_KEY").get_secret_value() == "hunter2"


def test_processes_that_make_the_key_together_agree_on_one(make_world):
    worlds = [make_world() for _ in range(8)]
    barrier, failures = threading.Barrier(8), []

    def put(world: "World", n: int) -> None:
        barrier.wait()
        try:
            world.secrets.set(f"KEY{n}", "hunter2")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=put, args=pair) for pair in zip(worlds, range(8), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    fresh = Secrets(worlds[0].database, worlds[0].settings)
    assert {fresh.open(f"KEY{n}").get_secret_value() for n in range(8)} == {"hunter2"}
    assert [path.name for path in worlds[0].home.iterdir()] == ["secret.key"]


def test_another_key_opens_nothing_and_says_why(world):
    world.secrets.set("API_KEY", "hunter2")
    other = base64.b64encode(os.urandom(32)).decode()
    with pytest.raises(Invalid, match="sealed with another key") as caught:
        Secrets(world.database, Settings(home=world.home, secret_key=other)).open("API_KEY")
    assert other not in str(caught.value)


@pytest.mark.parametrize("key", ["short", "x" * 44, base64.b64encode(b"x" * 31).decode(), ""])
def test_a_key_that_is_none_is_refused(world, key):
    with pytest.raises(Invalid, match="FUNCTORY_SECRET_KEY holds no key") as caught:
        Secrets(world.database, Settings(home=world.home, secret_key=key)).set("API_KEY", "hunter2")
    assert not key or key not in str(caught.value)


def test_several_machines_must_be_given_a_key(world):
    with pytest.raises(Invalid, match="several machines must share one key"):
        Secrets(world.database, Settings(home=world.home, broker_url="redis://127.0.0.1/0")).set(
            "API_KEY", "hunter2"
        )


def test_a_row_that_was_swapped_for_another_does_not_open(world):
    world.secrets.set("MINE", "hunter2")
    world.secrets.set("THEIRS", "hunter3")
    sealed = {row["name"]: row["sealed"] for row in world.rows(schema.secret)}
    with world.database.write() as tx:
        tx.execute(
            sa.update(schema.secret).where(schema.secret.c.name == "MINE").values(sealed=sealed["THEIRS"])
        )
    with pytest.raises(Invalid, match="MINE cannot be opened"):
        world.secrets.open("MINE")
