"""Functions trust the certificate authorities of the operator's file, whichever HTTP client they use."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from functory.engine.settings import Settings
from functory.workers.sandbox.protocol.job import ChildGrants
from functory.workers.sandbox.runner import Runner
from tests.support.network_world import Authority, web
from tests.support.runner_world import FakeHost, job
from tests.support.tier_marks import lacks

_SOURCE = """
import asyncio, ssl, urllib.request
import httpx, requests

def tried(work):
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

async def asynchronous(url):
    async with httpx.AsyncClient() as client:
        return (await client.get(url)).text

def f(port):
    url = f"https://localhost:{port}/"
    return {
        "urllib": tried(lambda: urllib.request.urlopen(url).read().decode()),
        "requests": tried(lambda: requests.get(url).text),
        "httpx": tried(lambda: httpx.get(url).text),
        "httpx, asynchronous": tried(lambda: asyncio.run(asynchronous(url))),
    }
"""


def answers(runner: Runner, port: int) -> dict[str, str]:
    granted = ChildGrants(hosts=(f"localhost:{port}",))
    packages = (sysconfig.get_path("purelib"),)
    outcome = runner.run(job(_SOURCE, input={"port": port}, packages=packages, grants=granted), FakeHost())
    assert outcome.status == "succeeded", outcome.error
    return outcome.result


@pytest.mark.parametrize("tier", ["A", "B", "none"])
def test_every_client_trusts_the_authorities_of_the_setting(tier, tmp_path: Path) -> None:
    if tier != "none" and lacks(tier):
        pytest.skip(f"no tier {tier} here")
    authority = Authority(tmp_path)
    settings = Settings(
        ca_file=Path(authority.path),
        private_networks=["127.0.0.0/8"],
        **({"unsafe_no_sandbox": "i-understand"} if tier == "none" else {"sandbox_tier": tier}),
    )
    with web(authority.server("localhost")) as port, Runner.from_settings(settings) as runner:
        found = answers(runner, port)
    assert set(found.values()) == {f"GET / of localhost:{port}"}, found


def test_without_it_no_client_trusts_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with (
        web(authority.server("localhost")) as port,
        Runner.from_settings(Settings(private_networks=["127.0.0.0/8"])) as runner,
    ):
        found = answers(runner, port)
    assert ["certificate verify failed" in text.replace("_", " ").lower() for text in found.values()] == [
        True
    ] * 4, found
