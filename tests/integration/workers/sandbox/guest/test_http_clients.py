"""The headers of a run's lineage in the requests of its HTTP clients, over HTTP and HTTPS."""

from __future__ import annotations

from pathlib import Path

import pytest

from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from functory.workers.sandbox.protocol.job import ChildGrants
from functory.workers.sandbox.runner import Runner
from tests.support.network_world import LOOPBACK, Authority, confined, door, web
from tests.support.runner_world import FakeHost, code, job

pytest_plugins = ["tests.support.connection_broker"]

LINEAGE = {"functory-lineage": "v1.token", "traceparent": "00-aa-bb-01", "tracestate": "functory=v1.token"}
ADDED = [list(item) for item in LINEAGE.items()]

CLIENTS = {
    "http.client": """
        import http.client
        secure = url.startswith("https")
        connection = (
            http.client.HTTPSConnection("api.example.com", PORT, context=context)
            if secure else http.client.HTTPConnection("api.example.com", PORT)
        )
        def get(headers):
            connection.request("GET", "/headers", headers=headers)
            return json.load(connection.getresponse())
        """,
    "urllib": """
        import urllib.request
        def get(headers):
            return json.load(urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context))
        """,
    "urllib3": """
        import urllib3
        pool = urllib3.PoolManager(ssl_context=context)
        def get(headers):
            return pool.request("GET", url, headers=headers).json()
        """,
    "requests": """
        import requests
        session = requests.Session()
        session.verify = AUTHORITY
        session.trust_env = False
        def get(headers):
            return session.get(url, headers=headers).json()
        """,
    "httpx": """
        import httpx
        client = httpx.Client(verify=context)
        def get(headers):
            return client.get(url, headers=headers).json()
        """,
    "httpx without a thread": """
        import asyncio, httpx
        def get(headers):
            async def fetch():
                async with httpx.AsyncClient(verify=context) as client:
                    return (await client.get(url, headers=headers)).json()
            return asyncio.run(fetch())
        """,
    "aiohttp": """
        import aiohttp, asyncio
        def get(headers):
            async def fetch():
                async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
                    async with session.get(url, headers=headers) as answer:
                        return await answer.json(content_type=None)
            return asyncio.run(fetch())
        """,
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_sends_them_once_and_keeps_the_trace_of_the_function(
    broker: ConnectionBroker, tmp_path: Path, client: str, scheme: str
) -> None:
    authority = Authority(tmp_path)
    with web(authority.server("api.example.com") if scheme == "https" else None) as port:
        plain, traced, forwarded = confined(
            door(broker, f"api.example.com:{port}"),
            f"""
        import json, ssl
        url = f"{scheme}://api.example.com:{{PORT}}/headers"
        context = ssl.create_default_context(cafile=AUTHORITY)
        {CLIENTS[client]}
        result = [
            get({{"x-own": "1"}}),
            get({{"traceparent": "00-cc-dd-00", "tracestate": "other=1"}}),
            get(LINEAGE),
        ]
        """,
            PORT=port,
            AUTHORITY=authority.path,
            LINEAGE=LINEAGE,
        )
    assert [one for one in plain if one[0] in LINEAGE] == ADDED
    assert ["x-own", "1"] in plain
    assert sorted(one for one in traced if one[0] in LINEAGE) == [
        ["functory-lineage", "v1.token"],
        ["traceparent", "00-cc-dd-00"],
        ["tracestate", "functory=v1.token"],
        ["tracestate", "other=1"],
    ]
    assert [one for one in forwarded if one[0] in LINEAGE] == ADDED


def test_http_2_requests_have_them_and_trailers_do_not(broker: ConnectionBroker) -> None:
    result = confined(
        door(broker, "api.example.com"),
        """
        import h2.config, h2.connection, h2.events
        client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        client.initiate_connection()
        head = [(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", "x")]
        client.send_headers(1, head)
        client.send_headers(1, [("x-end", "1")], end_stream=True)
        result = [
            [list(header) for header in event.headers]
            for event in server.receive_data(client.data_to_send())
            if isinstance(event, (h2.events.RequestReceived, h2.events.TrailersReceived))
        ]
        """,
        LINEAGE=LINEAGE,
    )
    assert [one[4:] if len(one) > 4 else one for one in result] == [ADDED, [["x-end", "1"]]]


SOURCE = """
def f(url):
    import json, urllib.request
    with urllib.request.urlopen(url, timeout=20) as answer:
        return [one for one in json.load(answer) if one[0] in ("functory-lineage", "traceparent", "tracestate")]
"""


def test_each_run_of_a_warm_child_has_its_own() -> None:
    with web() as port, Runner(private_networks=LOOPBACK) as runner:
        for number in range(2):
            lineage = {"functory-lineage": f"v1.{number}"}
            outcome = runner.run(
                job(
                    code(SOURCE),
                    input={"url": f"http://127.0.0.1:{port}/headers"},
                    grants=ChildGrants(hosts=(f"127.0.0.1:{port}",)),
                    lineage=lineage,
                    reuse=True,
                ),
                FakeHost(),
            )
            assert outcome.result == [["functory-lineage", f"v1.{number}"]], outcome.error
