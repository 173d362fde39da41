"""The error of a function names the grant that it lacks, for a file and for a host, whatever a client makes of it."""

from __future__ import annotations

import os
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.workers.sandbox.protocol.job import Grants
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, job
from tests.support.tier_marks import lacks
from tests.support.unprivileged import reveal


@pytest.fixture(scope="module", params=["A", "B", "C"])
def runner(request) -> Iterator[Runner]:
    if lacks(request.param):
        pytest.skip(f"no tier {request.param} here")
    if request.param == "C" and os.geteuid() == 0:
        reveal()
    with Runner(tier=request.param, private_networks=["127.0.0.0/8"]) as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not below a temporary folder: what a function finds there is its own.
    place = "/srv" if os.access("/srv", os.W_OK) else Path.home()
    with tempfile.TemporaryDirectory(prefix="functory-granted-", dir=place) as name:
        Path(name).chmod(0o777)
        (Path(name) / "there").write_text("text")
        (Path(name) / "there").chmod(0o666)
        yield Path(name)


def message(runner: Runner, body: str, grants: Grants | None = None) -> str:
    source = f"def f():\n    import os, sqlite3\n    from pathlib import Path\n    {body}"
    packages = (sysconfig.get_path("purelib"),)
    outcome = runner.run(job(source, packages=packages, grants=grants or Grants()), FakeHost())
    assert outcome.status == "failed", outcome.error
    return outcome.error["message"]


def read_advice(path: Path) -> str:
    return (
        f"the function has no grant for {path}, so it sees nothing there, whether it exists or not\n"
        f'try: if it exists, files={{"read": ["{path}"]}}; "write" instead of "read" to change it'
    )


def test_a_file_without_a_grant_is_explained_alike_whether_it_exists_or_not(runner, folder):
    for name in ("there", "gone"):
        path = folder / name
        for body in (f"open({str(path)!r})", f"Path({str(path)!r}).read_bytes()"):
            assert message(runner, body).endswith("\n" + read_advice(path)), body
    assert message(runner, f"os.listdir({str(folder)!r})").endswith("\n" + read_advice(folder))
    assert message(runner, f"open({str(folder)!r} + '/x/../new', 'w')").endswith(
        "\n" + read_advice(folder / "new")
    )


def test_the_error_that_another_was_raised_from_is_explained(runner, folder):
    body = f"""
    try:
        open({str(folder / "there")!r})
    except OSError as error:
        raise ValueError('no settings') from error"""
    assert message(runner, body) == "no settings\n" + read_advice(folder / "there")


def test_an_error_that_was_dealt_with_is_not(runner, folder):
    body = f"""
    try:
        open({str(folder / "there")!r})
    except OSError:
        pass
    raise ValueError('something else')"""
    assert message(runner, body) == "something else"


def test_what_is_granted_to_be_read_needs_another_grant_to_be_changed(runner, folder):
    granted = Grants(read=(str(folder),))
    path = folder / "there"
    assert message(runner, f"open({str(path)!r}, 'w')", granted).endswith(
        f'\n{path} is granted to be read, and not to be changed\ntry: files={{"write": ["{path}"]}}'
    )


def test_a_missing_file_in_a_granted_folder_is_just_missing(runner, folder):
    path = f"{folder}/gone"
    granted = Grants(write=(str(folder),))
    assert message(runner, f"open({path!r})", granted) == f"[Errno 2] No such file or directory: '{path}'"
    for other in ("/usr/lib/gone", "/tmp/gone", "/proc/gone"):
        assert "\n" not in message(runner, f"open({other!r})")


def test_a_relative_path_says_where_it_was_looked_for(runner):
    assert message(runner, "open('data.csv')") == (
        "[Errno 2] No such file or directory: 'data.csv'\n"
        "data.csv was looked for in the function's own folder, which is empty when it starts\n"
        'try: use its absolute path, and files={"read": ["/its/path"]}'
    )


_CLIENTS = {
    "socket": "import socket; socket.create_connection(('other.example.com', 443))",
    "urllib": "import urllib.request; urllib.request.urlopen('https://other.example.com/')",
    "requests": "import requests; requests.get('https://other.example.com/')",
    "httpx": "import httpx; httpx.get('https://other.example.com/')",
    "httpx, asynchronous": """
    import asyncio, httpx
    async def get():
        async with httpx.AsyncClient() as client:
            await client.get('https://other.example.com/')
    asyncio.run(get())""",
    "hidden": """
    import urllib.request
    try:
        urllib.request.urlopen('https://other.example.com/')
    except OSError as error:
        raise RuntimeError('the service cannot be reached') from error""",
}


@pytest.mark.parametrize("hosts", [(), ("api.example.com",)], ids=["no host", "another host"])
@pytest.mark.parametrize("client", _CLIENTS)
def test_a_refused_connection_is_named_with_its_grant_by_every_client(runner, client, hosts):
    text = message(runner, _CLIENTS[client], Grants(hosts=hosts))
    # requests has it inside of a repr as well, in one long line.
    assert text.count("may not connect to other.example.com:443\n") == 1, text
    assert text.count('\ntry: hosts=["other.example.com') == 1, text


def test_the_address_that_is_not_public_is_named_where_its_host_was_granted_by_name(runner):
    body = "import socket; socket.create_connection(('localhost', 443))"
    with Runner(tier=runner.tier) as strict:
        text = message(strict, body, Grants(hosts=("localhost",)))
        assert "localhost leads to 127.0.0.1" in text.replace("::1, ", "") and "private_networks" in text
        assert "127.0.0.1" not in message(strict, body, Grants(hosts=("*",)))
