"""deploy/nginx/functory.conf in a real nginx: what users need works through it, and it opens nothing."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from functory.client.functory import Functory
from functory.engine.database import schema
from tests.services.missing_servers import require
from tests.services.nginx import NAME, Nginx
from tests.support.http_sender import headers, serving
from tests.support.patience import patient

PASSWORD = "correct horse battery staple"
# Where users are: an address of this machine that is not the proxy's.
USERS = "127.0.0.7"
LARGEST = 2_000_000


class Deployment:
    """A server behind nginx, and its users."""

    def __init__(self, functory: Functory, proxy: Nginx) -> None:
        self.functory = functory
        self.proxy = proxy
        self._trust = ssl.create_default_context(cafile=str(proxy.certificate))

    def client(self) -> httpx.Client:
        """A user's client. It reaches the proxy by its address, and calls it by its name, as with DNS."""
        transport = httpx.HTTPTransport(verify=self._trust, local_address=USERS)
        return httpx.Client(transport=transport, timeout=patient(20))

    def send(self, client: httpx.Client, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, as a page of the server does."""
        given = {"host": f"{NAME}:{self.proxy.port}", "origin": self.proxy.url} | request.pop("headers", {})
        return client.request(
            method,
            f"https://127.0.0.1:{self.proxy.port}{path}",
            headers=given,
            extensions={"sni_hostname": NAME},
            **request,
        )


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    proxy = Nginx(require("nginx").programs)
    folder = tmp_path_factory.mktemp("proxied")
    with serving(folder, public_url=proxy.url, max_event_bytes=LARGEST) as (functory, url):
        functory.users.create("ada", SecretStr(PASSWORD), role="admin")
        proxy.behind = int(url.rpartition(":")[2])
        with proxy:
            yield Deployment(functory, proxy)


def test_a_user_logs_in_over_tls_and_the_audit_has_the_users_address(deployment: Deployment) -> None:
    with deployment.client() as client:
        answer = deployment.send(
            client,
            "POST",
            "/api/v1/login",
            json={"name": "ada", "password": PASSWORD},
            headers={"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "http"},
        )
        assert answer.status_code == 204, answer.text
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-functory=")
        assert "; Secure" in cookie
        sent = {"cookie": cookie.partition(";")[0]}
        assert deployment.send(client, "GET", "/api/v1/me", headers=sent).json()["name"] == "ada"
    with deployment.functory.database.read() as tx:
        begun = tx.rows(sa.select(schema.audit).where(schema.audit.c.action == "login.begin"))
    assert [row["origin"] for row in begun] == [f"login at {USERS}"]


def test_frames_of_the_live_stream_come_one_by_one(deployment: Deployment) -> None:
    functory = deployment.functory
    token = functory.tokens.create("ada", "tail")["token"]
    sent = {"authorization": f"Bearer {token}"}
    functory.functions.save("def work() -> int:\n    return 1\n")
    with deployment.client() as client:
        path = f"https://127.0.0.1:{deployment.proxy.port}/api/v1/stream?topics=executions"
        given = sent | {"host": f"{NAME}:{deployment.proxy.port}"}
        with client.stream("GET", path, headers=given, extensions={"sni_hostname": NAME}) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            next(lines)
            id_ = functory.executions.start("work", {})["id"]
            assert any(id_ in line for line in lines)


@pytest.mark.parametrize("path", ["/metrics", "/openapi.json"])
def test_what_programs_of_this_machine_may_read_is_closed(path: str, deployment: Deployment) -> None:
    with deployment.client() as client:
        assert deployment.send(client, "GET", path).status_code == 403


def test_a_webhook_takes_what_its_sender_has_signed_and_no_more_than_the_server(
    deployment: Deployment,
) -> None:
    def delivered(size: int) -> httpx.Response:
        body = b'"' + b"x" * (size - 2) + b'"'
        with deployment.client() as client:
            return deployment.send(client, "POST", "/webhooks/github", content=body, headers=headers(body))

    assert delivered(LARGEST - 100_000).status_code == 202
    assert delivered(LARGEST + 1).status_code == 413


def test_without_tls_one_is_sent_to_it(deployment: Deployment) -> None:
    plain = f"http://127.0.0.1:{deployment.proxy.plain_port}/executions?state=failed"
    answer = httpx.get(plain, headers={"host": NAME}, timeout=patient(20))
    assert answer.status_code == 301
    assert answer.headers["location"] == f"https://{NAME}/executions?state=failed"
