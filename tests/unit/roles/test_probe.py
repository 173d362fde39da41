"""The health check of a role: what it asks, and when it fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from functory.roles import probe
from tests.support.patience import patient

INTAKE = "functory_worker_last_intake_timestamp_seconds"


class Port(HTTPServer):
    """A port of a role, with the paths that answer 503."""

    failing: tuple[str, ...] = ()


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Port)
        self.send_response(503 if self.path in self.server.failing else 200)
        self.end_headers()
        self.wfile.write(b"functory_build_info 1.0\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Write nothing."""


@pytest.fixture
def port() -> Iterator[Port]:
    with Port(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    """The exit status and the output of the program."""
    done = subprocess.run(
        [sys.executable, "-m", "functory.roles.probe", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=patient(60),
    )
    return done.returncode, done.stdout + done.stderr


def test_a_role_that_answers_on_its_metrics_port_works(port: Port) -> None:
    assert run(FUNCTORY_METRICS_PORT=str(port.server_port)) == (0, "")


@pytest.mark.parametrize(
    ("failing", "status", "ready_status"), [("/healthz", 1, 1), ("/readyz", 0, 1), ("/metrics", 1, 1)]
)
def test_a_role_that_waits_is_alive_and_not_ready(
    port: Port, failing: str, status: int, ready_status: int
) -> None:
    port.failing = (failing,)
    number = str(port.server_port)
    assert run(FUNCTORY_METRICS_PORT=number)[0] == status
    assert run("--ready", FUNCTORY_METRICS_PORT=number)[0] == ready_status


def test_a_proxy_of_the_environment_is_not_asked(port: Port) -> None:
    proxy = "http://127.0.0.1:9"
    assert run(FUNCTORY_METRICS_PORT=str(port.server_port), http_proxy=proxy, HTTP_PROXY=proxy) == (0, "")


def test_a_server_that_is_not_ready_fails(port: Port) -> None:
    port.failing = ("/readyz",)
    status, text = run(f"http://127.0.0.1:{port.server_port}/readyz")
    assert status == 1 and "/readyz answers 503" in text


def test_a_port_without_a_role_fails() -> None:
    status, text = run("http://127.0.0.1:9/metrics")
    assert status == 1 and "does not answer" in text and "Traceback" not in text


@pytest.mark.parametrize("arguments", [(), ("--ready",)])
def test_without_a_port_it_says_what_to_set(arguments: tuple[str, ...]) -> None:
    status, text = run(*arguments)
    assert status == 2 and "FUNCTORY_METRICS_PORT" in text


@pytest.mark.parametrize(
    ("metrics", "fault"),
    [
        ("functory_build_info 1.0\n", None),
        (f"# HELP {INTAKE} When.\n{INTAKE} 999.5\n", None),
        (f"{INTAKE} 9.0e+02\n", "the worker took no work for 100 s"),
        # It starts, or its children take the work.
        (f"{INTAKE} 0.0\n", None),
    ],
)
def test_a_worker_that_takes_no_work_fails(metrics: str, fault: str | None) -> None:
    assert probe.stale(metrics, now=1000.0) == fault
