"""A private RabbitMQ server, with a new virtual host for each test.

Erlang nodes find each other through a name server, epmd. The tests start a private one: the system's epmd would know
our node, and an epmd that the broker starts itself becomes a daemon and outlives the tests.
"""

import base64
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services.port import free_port
from tests.services.server import NotReady, Server, environment_without
from tests.support.patience import patient

# Erlang starts threads for each core, and ten for files. A server with little to do starts quicker with one of each
# kind: for processes, for long computations, for files, and for drivers.
ONE_OF_EACH = "+S 1:1 +SDcpu 1:1 +SDio 1 +A 1"
USER = PASSWORD = "guest"  # the default user of a new RabbitMQ, for clients on 127.0.0.1 only


class RabbitMQ(Server):
    """A RabbitMQ server on 127.0.0.1 only, with the management plugin: its HTTP API makes a virtual host in 20 ms.

    A killed server keeps durable queues and persistent messages that it had confirmed.
    """

    title = "RabbitMQ"
    account = "rabbitmq"

    def __init__(self, programs: Mapping[str, Path]) -> None:
        """Reserve the other ports: management, distribution, name server; see `Server`."""
        super().__init__(programs)
        self.management_port = free_port()
        self.distribution_port = free_port()
        self.epmd_port = free_port()
        self.node = f"functory-{self.port}@localhost"
        self._cluster = f"functory-{uuid.uuid4().hex}"

    @property
    def url(self) -> str:
        """The virtual host "/"."""
        return self._url("/")

    def prepare(self) -> None:
        """Write the settings; the cluster's name is a secret that identifies the server."""
        self.write(
            "rabbitmq.conf",
            f"listeners.tcp.local = 127.0.0.1:{self.port}\n"
            f"cluster_name = {self._cluster}\n"
            "management.tcp.ip = 127.0.0.1\n"
            f"management.tcp.port = {self.management_port}\n",
        )
        self.write("enabled_plugins", "[rabbitmq_management].\n")
        self.write("environment.conf", "")

    def launch(self) -> None:
        """Start the name server, then the broker."""
        environment = self._environment
        self.spawn([self.programs["epmd"]], environment)
        # The broker starts a daemon of its own when none answers yet, so epmd must be listening first.
        self._wait_for_epmd()
        self.spawn([self.programs["rabbitmq-server"]], environment)

    def is_ours(self) -> bool:
        """Compare the cluster name in the server's greeting with ours.

        It is one of the server properties of `connection.start` (AMQP 0-9-1, section 1.4.2.1).
        """
        import amqp

        connection = amqp.Connection(f"127.0.0.1:{self.port}", USER, PASSWORD, connect_timeout=5)
        try:
            connection.connect()
            name = connection.server_properties.get("cluster_name")
        except (OSError, amqp.AMQPError) as error:
            raise NotReady(f"{type(error).__name__}: {error}") from error
        finally:
            connection.collect()
        if name != self._cluster:
            return False
        try:
            return self._management("GET", "overview")["node"] == self.node
        except urllib.error.URLError as error:
            raise NotReady(str(error)) from error

    @contextmanager
    def virtual_host(self) -> Iterator[str]:
        """Yield the URL of a new, empty virtual host; delete it afterwards with its contents."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.start()._management("PUT", f"vhosts/{name}", {})
        yield self._url(name)
        self.start()._management("DELETE", f"vhosts/{name}")

    def purge(self, url: str) -> None:
        """Delete every waiting message in the virtual host of ``url``."""
        name = url.rpartition("/")[2]
        for queue in self.queues(url):
            self._management("DELETE", f"queues/{name}/{urllib.parse.quote(queue, safe='')}/contents")

    def queues(self, url: str) -> list[str]:
        """The names of the queues in the virtual host of ``url``."""
        found: Any = self._management("GET", f"queues/{url.rpartition('/')[2]}?columns=name")
        return [queue["name"] for queue in found]

    def published(self, url: str) -> int:
        """The number of messages that clients have published in the virtual host of ``url``.

        The broker collects its statistics every five seconds.
        """
        found: Any = self._management("GET", f"vhosts/{url.rpartition('/')[2]}")
        return found.get("message_stats", {}).get("publish", 0)

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Keep the memory alarm on inside the block: the broker stops reading from publishers (RabbitMQ's manual,
        "Alarms")."""
        self.control("set_vm_memory_high_watermark", "absolute", "1")
        try:
            # The broker checks its memory once a second.
            while not self._alarmed():
                time.sleep(0.05)
            yield
        finally:
            self.control("set_vm_memory_high_watermark", "0.6")

    def _alarmed(self) -> bool:
        try:
            self._management("GET", "health/checks/local-alarms")
        except urllib.error.HTTPError as error:
            return error.code == 503
        return False

    def control(self, *words: str) -> None:
        """Run ``rabbitmqctl`` for this server."""
        program = self.programs["rabbitmq-server"].with_name("rabbitmqctl")
        self.run([program, "--node", self.node, *words], self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return environment_without("RABBITMQ_", "ERL_") | {
            "HOME": str(self.folder),  # Erlang keeps its cookie here
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "environment.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{127,0,0,1}} {ONE_OF_EACH}",
        }

    def _management(self, method: str, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.management_port}/api/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        )
        # Without a proxy, even if the environment sets one: the request stays on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as response:
            text = response.read()
        return json.loads(text) if text else {}

    def _wait_for_epmd(self) -> None:
        deadline = time.monotonic() + self.start_seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.epmd_port), timeout=patient(5)).close()
                return
            except OSError:
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(self._failure("has no name server: epmd does not answer")) from None
            time.sleep(0.02)

    def _url(self, virtual_host: str) -> str:
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{urllib.parse.quote(virtual_host, safe='')}"
