"""A deployment of all roles with work and faults in it, for what shows a deployment: metrics, dashboards, alerts.

A function fails, a guard stops a loop, a worker is killed, a webhook is refused, a schedule ticks, and so on:
``work`` does each of them once and returns when it has happened.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from pydantic import SecretStr

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import FunctoryError
from tests.support.model_server import ModelServer, Reply, error, model_server
from tests.support.processes import Role, Roles
from tests.support.waiting import wait_for
from tests.support.wheels import Index

KEY = "the key of the webhook"
SETTINGS: dict[str, Any] = {
    # A lost worker is noticed after two seconds.
    "lease_seconds": 2.0,
    "heartbeat_seconds": 0.5,
    "verify_seconds": 1.0,
    "metrics_port": 0,
}
SLOTS = 2
# A round installs a version of its own.
MOST_ROUNDS = 12


def fine(n: int = 1) -> dict[str, int]:
    print("fine")
    return {"n": n}


def broken() -> None:
    raise ValueError("it always fails")


def patient() -> None:
    import time

    time.sleep(120)


def sealed() -> int:
    from functory import secret

    return len(secret("WORD"))


def curious() -> int:
    from functory import secret

    # It is not declared.
    return len(secret("WORD"))


def packed() -> str:
    from importlib.metadata import version

    return version("ham")


def undo_book(input: dict[str, Any]) -> None:  # noqa: A002 - the name that the engine passes
    pass


def book() -> dict[str, int]:
    return {"seat": 1}


def travel() -> None:
    from functory import call

    call("book", durable=True)
    raise RuntimeError("no train")


def unbook(input: dict[str, Any]) -> None:  # noqa: A002 - the name that the engine passes
    raise RuntimeError("no refund")


def book_hotel() -> dict[str, int]:
    return {"room": 1}


def stay() -> None:
    from functory import call

    call("book_hotel", durable=True)
    raise RuntimeError("no hotel")


def unreadable() -> int:
    from functory import secret

    return len(secret("GARBLED"))


def retired() -> None:
    pass


def ask(model: str) -> str:
    from functory import execution, llm

    # A text of its own for each execution.
    return llm(f"Are you there? {execution.id}", model=model)["text"]


def clerk(memo: dict[str, Any], given: dict[str, Any] | None = None) -> dict[str, Any]:
    from functory import step

    if memo["goal"] == "loop":
        return step.tools([{"name": "fine", "arguments": {}}])
    if memo["goal"] == "fail":
        return step.fail("it cannot")
    if given is None:
        return step.ask("go on?", choices=["yes"])
    return step.done(given["answer"])


class DeploymentWithFaults:
    """The running roles of a deployment, and a client of it."""

    def __init__(self, roles: Roles, client: Functory, folder: Path, models: ModelServer) -> None:
        self.roles = roles
        self.client = client
        self.folder = folder
        self.models = models
        self.server = roles.start("server", port=0, api="on", http_head_seconds=1.0, wait=False)
        for role in ("router", "scheduler", "watcher", "gateway"):
            roles.start(role, wait=False)
        # Machines of their own: each installs packages for itself.
        self.doomed, self.worker = (
            roles.start("worker", "--slots", str(SLOTS), home=folder / name, wait=False)
            for name in ("one", "two")
        )
        self._save()
        for role in roles.started:
            role.wait_ready()
        self._round = 0

    @property
    def targets(self) -> list[str]:
        """Host and port at which each role shows its metrics."""
        return [_address(role) for role in self.roles.started]

    def _save(self) -> None:
        client = self.client
        client.secrets.set("WORD", "not a real secret")
        client.secrets.set("HOOK", KEY)
        client.secrets.set("GARBLED", "not a real secret")
        with client.database.write() as tx:
            tx.execute(
                schema.secret.update().where(schema.secret.c.name == "GARBLED").values(sealed=b"x" * 64)
            )
        plain: list[Callable[..., Any]] = [fine, broken, patient, curious, undo_book, retired, travel, stay]
        with warnings.catch_warnings():
            # One of them does what it should not.
            warnings.simplefilter("ignore")
            for function in plain:
                client.register_function(function)
        client.register_function(sealed, secrets=["WORD"])
        client.register_function(unreadable, secrets=["GARBLED"])
        client.register_function(book, compensate="undo_book")
        client.register_function(unbook, limits={"retries": 0})
        client.register_function(book_hotel, compensate="unbook")
        # Its own execution has caused the event: the guard stops the second round.
        client.register_trigger(
            "again", on={"type": ["execution.succeeded"], "subject": ["fine"]}, function="fine", input={}
        )
        asked = {"type": ["demo.asked"]}
        client.register_trigger("picky", on=asked, function="fine", input={}, when="data.missing > 3")
        client.register_trigger("unable", on=asked, function="retired", input={})
        client.register_trigger(
            "limited", on=asked, function="fine", input={}, flow={"rate_limit": {"limit": 1, "period": "1h"}}
        )
        client.functions.disable("retired")
        client.sources.save("webhook", "github", {"auth": {"type": "github", "secret": "HOOK"}})
        client.schedules.save("often", every="1s", function="fine", input={})
        self._add_models()
        client.register_function(clerk)
        client.agents.add("clerk", {"function": "clerk", "tools": ["fine"]}, author="ada")
        password = SecretStr(base64.b64encode(os.urandom(18)).decode())
        # Who answers a question must be able to read it.
        client.users.create("ada", password, role="operator", rights=["payload:read"])
        self._token = client.tokens.create("ada", "test", rights=["payload:read"])["token"]

    def _add_models(self) -> None:
        """Add models that answer, refuse, answer too late, and cost more than a tree may spend."""
        scenarios: dict[str, Any] = {
            "small": "yes",
            "stubborn": error(400, "wrong"),
            "late": Reply({}, delay=3.0),
            "dear": "yes",
        }
        for name, reply in scenarios.items():
            self.models.script(name, reply)
            fields = {"adapter": "openai", "provider_model": name, "api_base": self.models.url}
            price = 1_000_000 if name == "dear" else 10
            prices = {"price_in": price, "price_out": price, "timeout": 1.0 if name == "late" else 10.0}
            self.client.models.add(name, fields | prices, author="ada")
        self.client.register_function(ask, models=[*scenarios])

    def work(self) -> None:
        """Do everything once, except what a role does by itself."""
        self._round += 1
        call = self.client.call
        assert call("fine") == {"n": 1}
        assert call("sealed")
        # Packages of its own: they are installed, and a sandbox is started for them.
        self.client.register_function(packed, requirements=[f"ham=={self._round}"])
        assert call("packed") == str(self._round)
        assert call("ask", "small") == "yes"
        for model in ("stubborn", "late", "dear"):
            with contextlib.suppress(FunctoryError):
                call("ask", model)
        for failing in ("broken", "curious", "travel", "stay", "unreadable"):
            with contextlib.suppress(FunctoryError):
                call(failing)
        for _ in range(2):
            self.client.emit("demo.asked", {"n": self._round})
        self._run_agents()
        self._send()
        self._send_slowly()
        self._drop_file()
        wait_for(lambda: len(self.client.events.list(type_="saga.compensated")) == self._round)

    def _run_agents(self) -> None:
        """A run that repeats itself, one with too many steps, one that fails, one whose question is answered, and one
        whose question waits.
        """
        runs = self.client.runs
        loops, fails, answered, _ = (
            self._post("/agents/clerk/runs", {"goal": goal})["id"] for goal in ("loop", "fail", "ask", "wait")
        )
        limited = self._post("/agents/clerk/runs", {"goal": "loop", "limits": {"steps": 2}})["id"]
        (question,) = wait_for(lambda: runs.get(answered)["questions"])
        self._post(f"/approvals/{question['id']}:answer", {"answer": "yes"})
        assert [runs.wait(one, 60)["state"] for one in (loops, limited, fails, answered)] == [
            "stopped",
            "stopped",
            "failed",
            "succeeded",
        ]

    def _post(self, path: str, body: Any) -> Any:
        """Ask the server as an operator: what it counts is shown."""
        headers = {"authorization": f"Bearer {self._token}"}
        answer = httpx.post(f"{self.server.url}/api/v1{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    def _send(self) -> None:
        url, body = self.server.url, json.dumps({"round": self._round}).encode()
        signature = "sha256=" + hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "x-hub-signature-256": signature,
            "x-github-event": "push",
            "x-github-delivery": str(self._round),
            "content-type": "application/json",
            "functory-lineage": "forged",
        }
        assert httpx.post(f"{url}/webhooks/github", content=body, headers=headers).status_code == 202
        wrong = headers | {"x-hub-signature-256": "sha256=" + "0" * 64}
        assert httpx.post(f"{url}/webhooks/github", content=body, headers=wrong).is_client_error
        sent = {
            "id": str(self._round),
            "source": "/demo",
            "type": "demo.sent",
            "specversion": "1.0",
            "data": 1,
        }
        kind = {"content-type": "application/cloudevents+json"}
        assert httpx.post(f"{url}/events", json=sent, headers=kind).status_code == 202
        refused = httpx.get(f"{url}/api/v1/overview", headers={"authorization": "Bearer wrong"})
        assert refused.status_code == 401

    def _send_slowly(self) -> None:
        """Begin a request and send no more of it: the server ends the connection."""
        place = urlsplit(self.server.url)
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\n")
            while slow.recv(1024):
                pass

    def _drop_file(self) -> None:
        """Watch a folder, and have the watch notice a file."""
        inbox = self.folder / f"inbox-{self._round}"
        inbox.mkdir()
        self.client.sources.save(
            "file", inbox.name, {"path": str(inbox), "settle": "50ms", "initial": "events"}
        )
        file = inbox / "new.txt"
        file.write_text("new")
        wait_for(lambda: self.client.events.list(type_="file.created", subject=str(file)))

    def kill_a_worker(self) -> None:
        """Kill a worker that runs something, and return when its work was found lost."""
        # As many as there are slots: both workers get some.
        handles = [self.client.submit("patient") for _ in range(2 * SLOTS)]
        mark = f":{self.doomed.pid}:"

        def taken() -> list[str]:
            rows = self.client.executions.list(state="running", function="patient")
            return [row["id"] for row in rows if mark in f":{row['worker_id']}:"]

        held = wait_for(taken)
        self.doomed.kill()
        wait_for(lambda: any(self._is_lost(execution) for execution in held))
        for handle in handles:
            self.client.executions.cancel(handle.id)
        wait_for(lambda: not self.client.executions.list(state="running", function="patient"))

    def kill_the_fork_servers(self) -> None:
        """Kill what the living worker forks its sandboxes from: it starts others."""
        for child in psutil.Process(self.worker.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def _is_lost(self, execution: str) -> bool:
        return any(row["outcome"] == "lost" for row in self.client.executions.attempts(execution))


def _address(role: Role) -> str:
    url = role.url if role.name == "server" else role.metrics
    return urlsplit(url).netloc


@contextlib.contextmanager
def deployment_with_faults(
    folder: Path, database_url: str, broker_url: str
) -> Iterator[DeploymentWithFaults]:
    """The roles of a deployment as processes, inside the block."""
    key = base64.b64encode(os.urandom(32)).decode()
    index = Index()
    for version in range(1, MOST_ROUNDS + 1):
        index.publish("ham", str(version))
    settings: dict[str, Any] = SETTINGS | {
        "database_url": database_url,
        "broker_url": broker_url,
        "secret_key": key,
        "package_index": index.url,
    }
    with contextlib.ExitStack() as stack:
        stack.callback(index.stop)
        models = stack.enter_context(model_server())
        roles = stack.enter_context(Roles(folder, **settings))
        roles.migrate()
        with roles.client() as client:
            yield DeploymentWithFaults(roles, client, folder, models)
