"""A private Prometheus that scrapes the processes of a test, every second."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.services.server import NotReady, Server, environment_without
from tests.support.patience import patient

# The longest wait for scrapes, in seconds: one takes milliseconds, but a busy machine delays it.
SCRAPE_SECONDS = patient(60.0)


class Prometheus(Server):
    """A Prometheus on 127.0.0.1 only. ``targets`` are host:port of each job; ``rules`` is a file of rules."""

    title = "Prometheus"
    account = "prometheus"

    def __init__(
        self,
        programs: Mapping[str, Path],
        targets: Mapping[str, Sequence[str]] = {},
        rules: Path | None = None,
    ) -> None:
        """Programs as in `Server`."""
        super().__init__(programs)
        self._targets = targets
        self._rules = rules

    def prepare(self) -> None:
        """Write the configuration. JSON is YAML, too."""
        rules = [] if self._rules is None else [str(self.write("rules.yaml", self._rules.read_text()))]
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": rules,
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(targets)}]}
                for job, targets in self._targets.items()
            ],
        }
        self._file = self.write("prometheus.yaml", json.dumps(configuration))

    def launch(self) -> None:
        """Start it with its data in our folder, which identifies the server."""
        options = {
            "config.file": self._file,
            "storage.tsdb.path": self.folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self.spawn([self.programs["prometheus"], *words], environment_without())

    def is_ours(self) -> bool:
        """Compare the data folder of the server that answers with ours; it answers queries later than this."""
        try:
            flags = self._get("/api/v1/status/flags")
            with urlopen(f"{self.url}/-/ready", timeout=patient(5)):
                pass
        except OSError as error:
            raise NotReady(str(error)) from error
        return flags["storage.tsdb.path"] == str(self.folder / "data")

    @property
    def url(self) -> str:
        """The root of its API and pages."""
        return f"http://127.0.0.1:{self.port}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query, now. Raises ValueError for a wrong expression, with Prometheus' own text."""
        found = self._get("/api/v1/query", query=expression)
        if found["resultType"] != "vector":
            raise ValueError(f"{expression} gives a {found['resultType']}, no vector")
        return found["result"]

    def query_range(self, expression: str, begin: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of a query over a time range, all in seconds. Raises as :meth:`query`."""
        given = {"start": str(begin), "end": str(end), "step": str(step)}
        return self._get("/api/v1/query_range", query=expression, **given)["result"]

    def alerts(self) -> list[str]:
        """The alerts that fire or may soon, each as its name and description. One name may come several times."""
        found = self._get("/api/v1/alerts")["alerts"]
        return [f"{one['labels']['alertname']}: {one['annotations']['description']}" for one in found]

    def wait_for_scrapes(self) -> None:
        """Return when each target was scraped once more, from its begin to its end."""
        began = time.time()
        self._wait(lambda: self._scraped_after(began), "was not scraped")

    def _scraped_after(self, began: float) -> bool:
        targets = [target for job in self._targets.values() for target in job]
        # A sample has the time at which its scrape began, and is seen when the scrape has ended.
        return len(self.query(f"timestamp(up) > {began}")) == len(targets)

    def _wait(self, fact: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + SCRAPE_SECONDS
        while not fact():
            if time.monotonic() > until:
                raise RuntimeError(self._failure(what))
            time.sleep(0.05)

    def _get(self, path: str, **parameters: str) -> Any:
        try:
            with urlopen(f"{self.url}{path}?{urlencode(parameters)}", timeout=patient(30)) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            if error.code not in (400, 422):
                raise
            raise ValueError(f"{parameters}: {json.load(error)['error']}") from error
