"""A private Redis server, with an empty numbered database for each test."""

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.server import NotReady, Server, environment_without

if TYPE_CHECKING:
    import redis

# Databases of each process of tests: enough that a client of an earlier test does not find the next test's data.
DATABASES = 64
# The largest number of processes that share a server.
PROCESSES = 32


class Redis(Server):
    """A Redis server on 127.0.0.1 only. It stores nothing on disk: after a restart or kill it is empty."""

    title = "Redis"
    account = "redis"

    def __init__(self, programs: Mapping[str, Path]) -> None:
        """Begin with the first of this process's databases; see `Server`."""
        super().__init__(programs)
        self._numbers = _numbers()

    def card(self) -> dict[str, Any]:
        """Each process has databases of its own."""
        return {name: value for name, value in super().card().items() if name != "_numbers"}

    def attach(self, card: dict[str, Any]) -> None:
        """Each process has databases of its own."""
        super().attach(card)
        self._numbers = _numbers()

    @property
    def url(self) -> str:
        """The server's database 0."""
        return self._url(0)

    def prepare(self) -> None:
        """Redis needs nothing beforehand."""

    def launch(self) -> None:
        """Start without persistence, in our folder, which identifies the server."""
        settings = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": self.folder,
            "databases": DATABASES * PROCESSES,
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        }
        options = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        self.spawn([self.programs["redis-server"], *options], environment_without("REDIS"))

    def is_ours(self) -> bool:
        """Compare the working folder of the server that answers with ours."""
        import redis

        try:
            with self.connect() as client:
                answer = client.config_get("dir")
        except redis.ConnectionError as error:
            raise NotReady(str(error)) from error
        return answer["dir"] == str(self.folder)

    def connect(self, number: int = 0) -> "redis.Redis":
        """A client of the numbered database, answering in text."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis(
            host="127.0.0.1",
            port=self.port,
            db=number,
            decode_responses=True,
            socket_timeout=5,
            retry=Retry(NoBackoff(), 0),
        )

    @contextmanager
    def full(self) -> Iterator[None]:
        """Inside the block the server has no memory: it refuses every write (maxmemory with noeviction)."""
        with self.connect() as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", "1")
            try:
                yield
            finally:
                client.config_set("maxmemory", "0")

    def empty_database(self) -> str:
        """Empty the next numbered database and return its URL."""
        number = next(self._numbers)
        with self.start().connect(number) as client:
            client.flushdb()
        return self._url(number)

    def _url(self, number: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{number}"


def _numbers() -> Iterator[int]:
    """The database numbers of this process, in an endless circle."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PROCESSES
    return itertools.cycle(range(process * DATABASES, (process + 1) * DATABASES))
