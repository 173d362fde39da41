"""The keys that seal secrets change while everything runs: nothing is lost, and a former key goes only when unused."""

import base64
import json
import os
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from functory.engine.access import secrets as access
from functory.engine.access.secrets import Secrets
from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid
from functory.engine.events.causation import CausingExecution
from functory.engine.events.lineage_tokens import LineageTokens
from functory.engine.settings import Settings
from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]


def text_of(key: bytes) -> str:
    return base64.b64encode(key).decode()


def given(world, *keys: bytes) -> Secrets:
    """A process whose environment has these keys."""
    return Secrets(
        world.database, Settings(home=world.home, secret_key=SecretStr(",".join(map(text_of, keys))))
    )


def value(secrets: Secrets, name: str = "API_KEY") -> str:
    return secrets.open(name).get_secret_value()


def test_a_running_process_uses_a_new_key_at_once_and_opens_what_the_former_one_sealed(world):
    world.secrets.set("API_KEY", "hunter2")
    running = Secrets(world.database, world.settings)
    assert value(running) == "hunter2"
    world.secrets.add_key()
    assert value(running) == "hunter2"
    running.set("OTHER", "hunter3")
    assert len(world.secrets.key_usage()) == 2
    assert world.secrets.reseal() == 1
    assert (value(running), value(running, "OTHER")) == ("hunter2", "hunter3")
    assert len(world.secrets.key_usage()) == 1
    assert world.secrets.reseal() == 0
    assert [row["version"] for row in world.secrets.list()] == [1, 1]


def test_what_an_earlier_version_sealed_still_opens_and_is_sealed_anew(world):
    world.secrets.set("API_KEY", "hunter2")
    key = base64.b64decode((world.home / "secret.key").read_text())
    nonce = os.urandom(12)
    old = b"\x01" + nonce + AESGCM(key).encrypt(nonce, b"from before", b"functory:API_KEY:1")
    with world.database.write() as tx:
        tx.execute(sa.update(schema.secret).values(sealed=old))
    assert value(world.secrets) == "from before"
    world.secrets.add_key()
    assert value(world.secrets) == "from before"
    with pytest.raises(Conflict, match="sealed with a former key"):
        world.secrets.retire_keys(force=True)
    assert world.secrets.reseal() == 1
    assert world.secrets.retire_keys(force=True) == 1
    assert value(Secrets(world.database, world.settings)) == "from before"


def test_many_secrets_are_sealed_anew_in_batches(world, monkeypatch):
    monkeypatch.setattr(access, "BATCH", 3)
    for number in range(10):
        world.secrets.set(f"KEY{number}", f"value{number}")
    world.secrets.add_key()
    assert world.secrets.reseal() == 10
    assert world.secrets.retire_keys(force=True) == 1
    assert [value(world.secrets, f"KEY{number}") for number in range(10)] == [f"value{n}" for n in range(10)]


def test_writers_during_rotations_lose_nothing(make_world):
    worlds = [make_world() for _ in range(3)]
    worlds[0].secrets.set("FIRST", "makes the key")
    failures, stop = [], threading.Event()

    def write(world, name: str) -> None:
        try:
            for number in range(15):
                world.secrets.set(name, f"{name}{number}")
                assert value(world.secrets, name) == f"{name}{number}"
        except BaseException as error:
            failures.append(error)
        finally:
            stop.set()

    threads = [threading.Thread(target=write, args=(world, f"KEY{n}")) for n, world in enumerate(worlds[1:])]
    for thread in threads:
        thread.start()
    while not stop.is_set():
        worlds[0].secrets.add_key()
        worlds[0].secrets.reseal()
        try:
            worlds[0].secrets.retire_keys(force=True)
        except Conflict:
            continue
    for thread in threads:
        thread.join()
    assert failures == []
    assert [value(worlds[0].secrets, f"KEY{n}") for n in range(2)] == ["KEY014", "KEY114"]
    assert value(worlds[0].secrets, "FIRST") == "makes the key"


def test_a_secret_opens_whose_key_went_after_its_row_was_read(world, monkeypatch):
    world.secrets.set("API_KEY", "hunter2")
    operator = Secrets(world.database, world.settings)
    running = Secrets(world.database, world.settings)
    load = running.ring.load

    def load_after_a_rotation():
        monkeypatch.undo()
        operator.add_key()
        operator.reseal()
        operator.retire_keys(force=True)
        return load()

    monkeypatch.setattr(running.ring, "load", load_after_a_rotation)
    assert value(running) == "hunter2"


def test_keys_of_the_environment_are_changed_by_the_operator(world):
    old, new = os.urandom(32), os.urandom(32)
    given(world, old).set("API_KEY", "hunter2")
    both = given(world, new, old)
    assert value(both) == "hunter2"
    with pytest.raises(Invalid, match="FUNCTORY_SECRET_KEY") as caught:
        both.add_key()
    assert text_of(new) not in str(caught.value)
    assert both.reseal() == 1
    assert value(given(world, new)) == "hunter2"
    with pytest.raises(Invalid, match="sealed with another key"):
        value(given(world, old))


def test_former_keys_stay_as_long_as_tokens_of_lineage_are_valid(world):
    world.secrets.set("API_KEY", "hunter2")
    tokens = LineageTokens(world.secrets.derive_keys)
    row = CausingExecution(world.database.new_id(), 1, world.database.new_id(), 3, (), "work")
    before = list(tokens.headers(row, world.clock.now()).items())
    world.secrets.add_key()
    world.secrets.reseal()
    found = tokens.verify(before, world.clock.now())
    assert found is not None and found.depth == 3
    assert list(tokens.headers(row, world.clock.now()).items()) != before
    with pytest.raises(Conflict, match="valid for a day"):
        world.secrets.retire_keys()
    world.advance(timedelta(days=1, seconds=2).total_seconds())
    assert world.secrets.retire_keys() == 1
    assert tokens.verify(before, world.clock.now()) is None


def test_a_ring_with_a_wrong_key_is_refused_without_showing_it(world):
    world.secrets.set("API_KEY", "hunter2")
    file = world.home / "secret.key"
    file.write_text(file.read_text() + "c2hvcnQ=\n")
    with pytest.raises(Invalid, match="holds a wrong key") as caught:
        world.secrets.open("API_KEY")
    assert "c2hvcnQ" not in str(caught.value)
    assert text_of(b"x" * 32) not in repr(given(world, b"x" * 32).ring.load())


def test_processes_that_add_keys_together_lose_none(make_world):
    worlds = [make_world() for _ in range(4)]
    worlds[0].secrets.set("FIRST", "makes the key")
    threads = [threading.Thread(target=world.secrets.add_key) for world in worlds for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(worlds[0].secrets.ring.load()) == 13


def test_the_commands_rotate_and_retire_and_doctor_says_what_is_left(tmp_path):
    shell = Shell(tmp_path)

    def findings() -> list[str]:
        told = json.loads(shell.run("doctor", "--json", status=None).stdout)
        return [found["verdict"] for found in told if found["check"] == "secrets"]

    shell.run("secret", "set", "API_KEY", stdin="hunter2-hunter2")
    key = (tmp_path / "home" / "secret.key").read_text().strip()
    said = shell.out("secret", "rotate-key")
    assert said.endswith("1 secret sealed anew")
    assert key not in said
    assert findings() == ["ok"]
    refused = shell.run("secret", "retire-keys", "--yes", status=None)
    assert refused.returncode != 0 and "valid for a day" in refused.stderr
    assert "1 former keys are dropped" in shell.out("secret", "retire-keys", "--force", "--yes")
    assert len((tmp_path / "home" / "secret.key").read_text().splitlines()) == 1
    (tmp_path / "home" / "secret.key").write_text(key + "\n")
    assert findings() == ["ok", "fail"]
