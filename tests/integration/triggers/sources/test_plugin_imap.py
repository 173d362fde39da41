"""The source of the how-to: an IMAP inbox in under fifty lines, installed as anybody would, exactly once."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.triggers.sources.plugin import SourcePlugin
from tests.support.imap_server import PASSWORD, USER, Imap, serving
from tests.support.patience import patient
from tests.support.processes import Roles
from tests.support.source_world import keeping
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "examples" / "imap_inbox"


@pytest.fixture
def imap(tmp_path: Path) -> Iterator[Imap]:
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def installed() -> dict[str, SourcePlugin]:
    """The kind, from its file."""
    spec = importlib.util.spec_from_file_location("imap_inbox", FOLDER / "imap_inbox.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"imap": module.Inbox()}


def configuration(imap: Imap, **config: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1", "port": imap.port, "user": USER, "password_secret": "MAIL", "every": 0.1,
        "ca_file": str(imap.certificate),
    } | config  # fmt: skip


def save(world: World, imap: Imap, **config: Any) -> None:
    world.secrets.set("MAIL", PASSWORD)
    world.sources.store.save("imap", "ada", configuration(imap, **config))


def subjects(world: World) -> list[str]:
    return [
        row["data"].get("subject")
        for row in world.events.list(type_="mail.received", limit=100, payloads=True)
    ][::-1]


def problem(world: World) -> str:
    return world.sources.store.get("imap", "ada")["problem"] or ""


def test_it_has_under_fifty_lines_and_is_in_the_how_to() -> None:
    text = (FOLDER / "imap_inbox.py").read_text()
    assert len([line for line in text.splitlines() if line.strip()]) < 50
    page = (ROOT / "docs" / "how-to" / "write-a-source.md").read_text()
    shown = re.search(r'```python title="imap_inbox.py"\n(.*?)```', page, re.DOTALL)
    assert shown is not None
    assert shown[1] == text
    assert (FOLDER / "pyproject.toml").read_text() in page


def test_emails_become_events_once_and_the_cursor_remembers(
    world: World, imap: Imap, installed: dict[str, SourcePlugin]
) -> None:
    imap.deliver("first", "Grüße")
    imap.deliver("second")
    save(world, imap)
    with keeping(world, installed) as kept:
        kept.until(lambda: subjects(world) == ["first", "second"], "the first emails")
        imap.deliver("third")
        kept.until(lambda: len(subjects(world)) == 3, "the third letter")
    with keeping(world, installed) as kept:
        imap.deliver("fourth")
        kept.until(lambda: len(subjects(world)) == 4, "the fourth letter")
    assert subjects(world) == ["first", "second", "third", "fourth"]
    assert imap.fetched == [1, 2, 3, 4]
    first = world.events.list(type_="mail.received", limit=5, payloads=True)[-1]["data"]
    assert first.pop("text").startswith("Gr")
    assert first == {
        "from": "bob@example.org",
        "to": "ada@example.org",
        "subject": "first",
        "date": "",
        "message-id": "",
    }


def test_a_connection_that_is_lost_is_made_again_and_nothing_is_doubled(
    world: World, imap: Imap, installed: dict[str, SourcePlugin]
) -> None:
    imap.deliver("first")
    save(world, imap)
    with keeping(world, installed) as kept:
        kept.until(lambda: subjects(world) == ["first"], "the first letter")
        imap.drop = True
        kept.until(lambda: problem(world), "the problem")
        imap.deliver("second")
        imap.drop = False
        kept.until(lambda: len(subjects(world)) == 2, "the second letter")
        kept.until(lambda: problem(world) == "", "the end of the problem")
    assert imap.logins >= 2
    assert subjects(world) == ["first", "second"]


def test_a_mailbox_that_is_numbered_anew_is_read_anew(
    world: World, imap: Imap, installed: dict[str, SourcePlugin]
) -> None:
    imap.deliver("old")
    save(world, imap)
    with keeping(world, installed) as kept:
        kept.until(lambda: subjects(world) == ["old"], "the letter")
        imap.emails, imap.epoch = {}, 2
        imap.deliver("new")
        kept.until(lambda: subjects(world) == ["old", "new"], "the letter of the new numbering")


def test_a_wrong_password_is_reported_and_not_shown(
    world: World, imap: Imap, installed: dict[str, SourcePlugin]
) -> None:
    save(world, imap)
    world.secrets.set("MAIL", "not-the-password")
    with keeping(world, installed) as kept:
        found = kept.until(lambda: problem(world), "the problem")
        assert "AUTHENTICATIONFAILED" in found
        assert "not-the-password" not in found
        world.secrets.set("MAIL", PASSWORD)
        imap.deliver("first")
        kept.until(lambda: subjects(world) == ["first"], "the letter")


def test_a_certificate_of_an_unknown_authority_is_refused(
    world: World, imap: Imap, installed: dict[str, SourcePlugin]
) -> None:
    save(world, imap, ca_file=None)
    with keeping(world, installed) as kept:
        kept.until(lambda: "CERTIFICATE_VERIFY_FAILED" in problem(world), "the problem")
    assert imap.logins == 0


def test_emails_that_hold_anything_stop_nothing(
    world: World, imap: Imap, installed: dict[str, SourcePlugin]
) -> None:
    for raw in (
        b"", b"\x00\xff\xfe", b"Subject: =?x-no-such?b?////?=\r\n\r\n\xff", b"From: <<<>>>,;:\r\nTo: \"\r\n\r\n",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n--x", b"Subject: \xff\xed\xa0\x80\r\n\r\nx" * 3,
        b"Content-Type: text/plain; charset=nope\r\n\r\nx", b"Content-Transfer-Encoding: base64\r\n\r\n!!!",
        b"Subject: " + b"x" * 300_000,
    ):  # fmt: skip
        imap.deliver_raw(raw)
    imap.deliver("last")
    save(world, imap)
    with keeping(world, installed) as kept:
        kept.until(lambda: "last" in subjects(world), "the last letter")
    assert len(subjects(world)) == 10


@pytest.mark.postgres
@pytest.mark.redis
def test_installed_as_a_package_and_killed_in_the_middle_it_loses_and_doubles_nothing(
    tmp_path: Path, imap: Imap, postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation",
         "--python", sys.executable, "--target", place, FOLDER],
        check=True, timeout=patient(120),
    )  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.setenv("FUNCTORY_SECRET_KEY", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
    for number in range(400):
        imap.deliver(f"letter {number}")
    with Roles(
        tmp_path, database_url=postgres_url, broker_url=redis_url, lease_seconds=3, heartbeat_seconds=1,
        secret_key="MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    ) as roles, roles.client() as client:  # fmt: skip
        roles.migrate()
        client.secrets.set("MAIL", PASSWORD)
        client.sources.store.save("imap", "ada", configuration(imap))
        watcher = roles.start("watcher")
        wait_for(lambda: len(imap.fetched) > 20, "some emails")
        watcher.kill()
        roles.start("watcher")
        since = client.sources.store.get("imap", "ada")["created_at"]
        wait_for(lambda: client.events.count(since, ["mail.received"]) == 400, "all emails", seconds=60)
        found = [row.data["subject"] for row in client.events.scan(since) if row.type == "mail.received"]
        assert found == [f"letter {number}" for number in range(400)]
