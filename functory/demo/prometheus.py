"""A Prometheus that runs beside the demo and collects its metrics, in the demo's folder and on this machine only."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from functory.engine.errors import Invalid, Unavailable

# Where people look for a Prometheus; another port when this one is taken.
USUAL_PORT = 9090
SCRAPE_INTERVAL = "1s"
START_SECONDS = 30.0
STOP_SECONDS = 10.0
# What to look at: the question, and its expression.
QUESTIONS = (
    ("executions a second", "sum by (function) (rate(functory_executions_finished_total[15s]))"),
    (
        "time until an execution starts",
        "histogram_quantile(0.95, sum by (le) (rate(functory_execution_queue_seconds_bucket[15s])))",
    ),
    ("stopped by guards", "sum by (guard) (functory_guard_blocks_total)"),
)


def find_program() -> Path:
    """The installed program. Raises :class:`Invalid` where there is none."""
    found = shutil.which("prometheus")
    if found is None:
        raise Invalid(
            "there is no program prometheus on the PATH",
            "--watch runs one beside the demo",
            "apt-get install prometheus (Debian, Ubuntu), or run the demo without --watch",
        )
    return Path(found)


@contextlib.contextmanager
def running(program: Path, folder: Path, target: str) -> Iterator[str]:
    """Run Prometheus inside the block, scraping ``target`` (host:port). Yields its URL.

    Raises :class:`Unavailable` when it does not start.
    """
    folder.mkdir()
    configuration = folder / "prometheus.yaml"
    # JSON is YAML, too.
    configuration.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": SCRAPE_INTERVAL},
                "scrape_configs": [{"job_name": "functory", "static_configs": [{"targets": [target]}]}],
            }
        )
    )
    address = f"127.0.0.1:{_free_port()}"
    command = [
        str(program),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "output.log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait_until_ready(process, f"http://{address}", folder / "output.log")
        yield f"http://{address}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def graph(url: str, expression: str) -> str:
    """The address of a graph of the last five minutes."""
    return f"{url}/graph?g0.range_input=5m&g0.tab=0&g0.expr={quote(expression)}"


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(f"{url}/-/ready", timeout=1):  # noqa: S310
                return
        except (URLError, OSError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").splitlines()[-3:]
                raise Unavailable(
                    "Prometheus did not start",
                    "\n".join([*lines, str(error)]),
                    "run the demo without --watch",
                ) from None
        time.sleep(0.05)


def _free_port() -> int:
    for port in (USUAL_PORT, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as free:
            return free.getsockname()[1]
    raise Unavailable(
        "no port is free for Prometheus", "127.0.0.1 gives none", "run the demo without --watch"
    )
