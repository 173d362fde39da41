"""A Redis server of our own, and an empty numbered database in it for each test."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.server import NotReady, Server, environment_without

if TYPE_CHECKING:
    import redis

# So many that a client left over from an earlier test does not meet the next one's data.
DATABASES = 64


class Redis(Server):
    """Redis on 127.0.0.1 only, keeping nothing on disk: whoever restarts or kills it has an empty one."""

    title = "Redis"
    account = "redis"

    def __init__(self, programs: Mapping[str, Path]) -> None:
        """Begin with database 0; see `Server`."""
        super().__init__(programs)
        self._numbers = itertools.cycle(range(DATABASES))

    @property
    def url(self) -> str:
        """The server's database 0."""
        return self._url(0)

    def prepare(self) -> None:
        """Redis needs nothing beforehand."""

    def launch(self) -> None:
        """Start without persistence, in our folder, by which the server is recognised."""
        settings = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": self.folder,
            "databases": DATABASES,
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

    def empty_database(self) -> str:
        """Empty the next numbered database and return its URL."""
        number = next(self._numbers)
        with self.start().connect(number) as client:
            client.flushdb()
        return self._url(number)

    def _url(self, number: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{number}"
