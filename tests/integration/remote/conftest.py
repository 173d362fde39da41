"""One embedded engine with all roles behind a server on a socket, and a client of it with an admin's token."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from functory.api import create_app
from functory.api.server import Server
from functory.client.functory import Functory
from functory.engine.errors import NotFound
from functory.engine.settings import Settings
from functory.remote.client import RemoteFunctory
from tests.support import waiting
from tests.support.cli_shell import Shell
from tests.support.patient_reads import patient_reads as patient_reads

SOURCES = (
    "def add(a: int, b: int = 1) -> int:\n    print('adding')\n    return a + b\n",
    "def fail(text: str) -> str:\n    raise ValueError(text)\n",
    "import time\n\n\ndef slow(seconds: float) -> str:\n    time.sleep(seconds)\n    return 'slept'\n",
)


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Functory, str, str]]:
    """The engine, its address, and a token of an admin."""
    home = tmp_path_factory.mktemp("served") / "home"
    with Functory(Settings(home=home, poll_seconds=0.02), author="ada") as engine:
        for source in SOURCES:
            engine.functions.save(source)
        engine.users.create("ada", SecretStr("a long pass phrase"), role="admin")
        token = engine.tokens.create("ada", "tests")["token"]
        engine.start()
        server = Server(create_app(engine), "127.0.0.1", 0)
        server.start()
        try:
            yield engine, server.url, token
        finally:
            server.stop(5)


@pytest.fixture
def engine(served: tuple[Functory, str, str]) -> Functory:
    return served[0]


@pytest.fixture
def remote(served: tuple[Functory, str, str]) -> Iterator[RemoteFunctory]:
    with RemoteFunctory(served[1], token=served[2]) as client:
        yield client


@pytest.fixture(scope="package")
def history(served: tuple[Functory, str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ids of what the commands are asked about."""
    engine = served[0]
    engine.functions.save(
        "def report(total: int) -> str:\n    return str(add(total))\n", dependencies=["add"]
    )
    engine.functions.save("def report(total: int) -> str:\n    return 'v2'\n", name="report")
    engine.save_trigger(
        "on-order", on={"type": ["order.created"]}, function="add", input={"a": "{{ event.data.n }}"}
    )
    engine.save_trigger("never", on={"type": ["no.such"]}, function="add", input={"a": 1})
    engine.save_trigger(
        "together", on={"type": ["order.packed"]}, function="add", input={"a": 1},
        flow={"batch": {"max_size": 9, "timeout": "10m", "key": "data.who"}},
    )  # fmt: skip
    engine.save_trigger("shut", on={"type": ["order.lost"]}, function="add", input={"a": 1})
    engine.triggers.pause("shut")
    engine.save_trigger(
        "on-report", on={"type": ["execution.succeeded"], "subject": ["report"]}, function="report",
        input={"total": 1}, guards={"acknowledge_cycle": 3}, shadow=True,
    )  # fmt: skip
    engine.sources.save("file", "inbox", {"path": str(tmp_path_factory.mktemp("inbox"))})
    engine.sources.save("webhook", "github", {"auth": {"type": "github", "secret": ["HOOK"]}})
    ids = {
        "ok": engine.run("add", {"a": 1})["id"],
        "failed": engine.run("fail", {"text": "broken"})["id"],
        "spans": engine.run("report@1", {"total": 1})["id"],
        "event": engine.emit("order.created", {"n": 4}, subject="o1"),
    }
    engine.settle(60)
    engine.state.set("add", "total", {"n": 1}, author="ada")
    engine.secrets.set("API_KEY", "a secret value", author="ada")
    engine.schedules.save(
        "nightly", cron="0 3 * * *", timezone="Europe/Berlin", function="add", input={"a": 1}
    )
    ids["caused"] = engine.executions.list(root_id=engine.events.get(ids["event"])["root_id"])[0]["id"]
    ids["replayed"] = engine.executions.replay(ids["ok"])["id"]
    engine.settle(60)
    # These wait for ten minutes: nothing settles any more.
    for type_, data in (("order.packed", {"who": "ada"}), ("order.packed", {"who": "bo"}), ("order.lost", 1)):
        engine.emit(type_, data)
    waiting.wait_for(lambda: engine.lineage.open_work()["pending events"] == 0)
    return ids


@pytest.fixture
def shells(served: tuple[Functory, str, str], tmp_path: Path) -> tuple[Shell, Shell]:
    """The command line on the database, and over the server."""
    (tmp_path / "local").mkdir()
    (tmp_path / "far").mkdir()
    local, far = Shell(tmp_path / "local"), Shell(tmp_path / "far")
    local.environment |= {"FUNCTORY_HOME": str(served[0].settings.home)}
    del far.environment["FUNCTORY_HOME"]
    far.environment |= {"FUNCTORY_URL": served[1], "FUNCTORY_TOKEN": served[2]}
    return local, far


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The links that commands open, in place of a browser."""
    import webbrowser

    links: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda link: not links.append(link))
    return links


@pytest.fixture
def far_as(
    served: tuple[Functory, str, str], shells: tuple[Shell, Shell]
) -> Iterator[Callable[[str], Shell]]:
    """Makes the command line over the server that of a new user of a role, who may not read payloads."""
    engine, far = served[0], shells[1]

    def become(role: str) -> Shell:
        engine.users.create("olga", SecretStr("a long pass phrase"), role=role)
        far.environment["FUNCTORY_TOKEN"] = engine.tokens.create("olga", "tests")["token"]
        return far

    yield become
    with contextlib.suppress(NotFound):
        engine.users.delete("olga")
