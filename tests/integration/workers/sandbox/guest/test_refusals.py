"""The error of a function names the grant that it lacks, for a file and for a host, whatever a client makes of it."""

from __future__ import annotations

import os
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.workers.sandbox.protocol.job import ChildGrants
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


def failure(runner: Runner, body: str, grants: ChildGrants | None = None) -> dict[str, Any]:
    source = f"def f():\n    import os, sqlite3\n    from pathlib import Path\n    {body}"
    packages = (sysconfig.get_path("purelib"),)
    outcome = runner.run(job(source, packages=packages, grants=grants or ChildGrants()), FakeHost())
    assert outcome.status == "failed" and outcome.error is not None, outcome.error
    return outcome.error


def message(runner: Runner, body: str, grants: ChildGrants | None = None) -> str:
    return failure(runner, body, grants)["message"]


def read_advice(path: Path) -> str:
    return (
        f"the function has no grant for {path}, so it sees nothing there, whether it exists or not\n"
        f'try: if it exists, files={{"read": ["{path}"]}}; files={{"write": ["{path}"]}} to change it'
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
    granted = ChildGrants(read=(str(folder),))
    path = folder / "there"
    assert message(runner, f"open({str(path)!r}, 'w')", granted).endswith(
        f'\n{path} is granted to be read, and not to be changed\ntry: files={{"write": ["{path}"]}}'
    )


def test_a_missing_file_in_a_granted_folder_is_just_missing(runner, folder):
    path = f"{folder}/gone"
    granted = ChildGrants(write=(str(folder),))
    assert message(runner, f"open({path!r})", granted) == f"[Errno 2] No such file or directory: '{path}'"
    for other in ("/usr/lib/gone", "/tmp", "/proc/gone"):
        assert "\n" not in message(runner, f"open({other!r})")


def test_a_relative_path_says_where_it_was_looked_for(runner):
    assert message(runner, "open('data.csv')") == (
        "[Errno 2] No such file or directory: 'data.csv'\n"
        "data.csv was looked for in the function's own folder, which is empty when it starts\n"
        'try: use its absolute path, and files={"read": ["/its/path"]}'
    )


# Libraries that pass a refusal on in their own way. The path is that of a file that is there.
_OPENERS = {
    "a database": "sqlite3.connect(PATH)",
    "a database by its URI": "sqlite3.connect(f'file:{PATH}?mode=ro', uri=True)",
    "a library in C": "import ctypes; ctypes.CDLL(PATH)",
    "an archive": "import zipfile; zipfile.ZipFile(PATH)",
    "an array": "import numpy; numpy.load(PATH)",
    "a log": "import logging; logging.FileHandler(PATH)",
    "a copy": "import shutil; shutil.copy(PATH, 'copy')",
    "a move": "open('x', 'w').close(); os.rename('x', PATH)",
    "the number alone": """
    try:
        open(PATH)
    except OSError as error:
        number = error.errno
    raise OSError(number, os.strerror(number))""",
    "the text alone": """
    try:
        open(PATH)
    except OSError as error:
        text = str(error)
    raise RuntimeError(text)""",
    "another error": """
    try:
        open(PATH)
    except OSError:
        raise ValueError('no settings') from None""",
    "a group of tasks": """
    import asyncio
    async def read():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(open, PATH))
    asyncio.run(read())""",
}


@pytest.mark.parametrize("opener", _OPENERS)
def test_a_refused_file_is_named_with_its_grant_by_every_library(runner, folder, opener):
    body = _OPENERS[opener]
    path = folder / "there"
    text = message(runner, f"PATH = {str(path)!r}\n    {body}")
    assert text.endswith("\n" + read_advice(path)), text
    assert text.count("try: ") == 1


def test_a_database_that_may_only_be_read_says_what_changing_it_needs(runner, folder):
    path = folder / "there"
    path.write_bytes(b"")
    body = f"sqlite3.connect({str(path)!r}).execute('create table t (x)')"
    assert message(runner, body, ChildGrants(read=(str(folder),))).endswith(
        f'\n{path} is granted to be read, and not to be changed\ntry: files={{"write": ["{path}"]}}'
    )


def test_a_path_in_the_machines_temporary_folder_is_explained(runner):
    with tempfile.TemporaryDirectory(prefix="functory-granted-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        path = Path(name) / "data.csv"
        path.write_text("text")
        path.chmod(0o644)
        for body in (f"open({str(path)!r})", f"sqlite3.connect({str(path)!r})"):
            text = message(runner, body)
            assert f"the function has no grant for {path}" in text
            assert text.endswith(f'files={{"read": ["{path}"]}}; files={{"write": ["{path}"]}} to change it')
        # What it advises helps.
        granted = runner.run(
            job(f"def f():\n    return open({str(path)!r}).read()", grants=ChildGrants(read=(str(path),))),
            FakeHost(),
        )
        assert granted.result == "text"


_STARTERS = {
    "run": "import subprocess; subprocess.run(['ls'])",
    "a shell": "import subprocess; subprocess.check_output('ls', shell=True)",
    "system": "assert os.system('ls') == 0, 'it failed'",
    "popen": "os.popen('ls').read()",
    "fork": "os.fork()",
    "spawn": "os.posix_spawn('/bin/ls', ['ls'], {})",
    "exec": "os.execv('/bin/ls', ['ls'])",
    "a process": "import multiprocessing; multiprocessing.get_context('fork').Process(target=print).start()",
    "a pool": "import multiprocessing; multiprocessing.Pool(2)",
    "an executor": "import concurrent.futures as c; c.ProcessPoolExecutor(1).submit(print).result()",
    "asyncio": "import asyncio; asyncio.run(asyncio.create_subprocess_exec('ls'))",
}


@pytest.mark.parametrize("starter", _STARTERS)
def test_a_refused_program_is_explained_by_its_grant(runner, starter):
    text = message(runner, _STARTERS[starter])
    assert text.count("\nthe function may not start programs or other processes") == 1, text
    assert text.count("\ntry: subprocess=True") == 1, text


def test_a_program_that_is_not_there_is_just_missing(runner):
    if runner.tier == "C":
        pytest.skip("programs are granted in tiers A and B")
    text = message(
        runner, "import subprocess; subprocess.run(['no-such-program'])", ChildGrants(subprocess=True)
    )
    assert text == "[Errno 2] No such file or directory: 'no-such-program'"


def test_a_socket_that_is_not_pythons_own_is_explained(runner):
    text = message(runner, "import _socket; _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)")
    assert "a library in C that makes its own cannot" in text and 'try: hosts=["HOST:PORT"]' in text


@pytest.mark.parametrize("hosts", [(), ("db.example.com:5432",)], ids=["no host", "its host"])
@pytest.mark.parametrize("address", ["postgresql://ada@db.example.com/shop", "host=/run/postgresql user=ada"])
def test_a_client_of_postgresql_with_sockets_of_its_own_is_explained(runner, address, hosts):
    text = message(runner, f"import psycopg; psycopg.connect({address!r})", ChildGrants(hosts=hosts))
    assert text.count('\ntry: hosts=["HOST:PORT"], and a client that is written in Python') == 1, text
    assert "pg8000" in text


def test_an_error_of_a_service_is_not_taken_for_a_file(runner):
    body = "raise RuntimeError('GET /srv/items answered 403: Permission denied')"
    assert "\n" not in message(runner, body)


def test_an_execution_is_not_explained_by_the_attempts_of_the_one_before(runner, folder):
    source = f"""
import os
def f(x):
    if x:
        raise OSError(2, os.strerror(2))
    try:
        open({str(folder / "there")!r})
    except OSError:
        pass
"""
    first, second = (
        runner.run(job(source, input={"x": x}, reuse=True, tidy=True), FakeHost()) for x in (0, 1)
    )
    assert first.pid == second.pid and first.status == "succeeded"
    assert second.error["message"] == "[Errno 2] No such file or directory"


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
    "a number": """
    import socket
    number = socket.socket().connect_ex(('other.example.com', 443))
    raise OSError(number, os.strerror(number))""",
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
    text = message(runner, _CLIENTS[client], ChildGrants(hosts=hosts))
    # requests has it inside of a repr as well, in one long line.
    assert text.count("may not connect to other.example.com:443\n") == 1, text
    assert text.count('\ntry: hosts=["other.example.com') == 1, text


@pytest.mark.parametrize("client", ["urllib", "httpx", "httpx, asynchronous"])
def test_a_refused_connection_has_one_short_traceback(runner, client):
    error = failure(runner, _CLIENTS[client])
    assert error["message"].startswith("the function may not connect to other.example.com:443\nno host")
    assert error["traceback"].count("Traceback") == 1 and "another exception" not in error["traceback"]
    assert "site-packages" not in error["traceback"] and "/urllib/" not in error["traceback"]
    assert 'File "<functory:' in error["traceback"]
    assert error["traceback"].endswith(f"{error['type']}: {error['message']}\n")


def test_the_words_of_the_code_stay_above_a_refused_connection(runner):
    error = failure(runner, _CLIENTS["hidden"])
    assert error["type"] == "RuntimeError"
    assert error["message"].startswith("the service cannot be reached\nthe function may not connect to other")


def test_the_address_that_is_not_public_is_named_where_its_host_was_granted_by_name(runner):
    body = "import socket; socket.create_connection(('localhost', 443))"
    with Runner(tier=runner.tier) as strict:
        text = message(strict, body, ChildGrants(hosts=("localhost",)))
        assert "localhost leads to 127.0.0.1" in text.replace("::1, ", "") and "private_networks" in text
        assert "127.0.0.1" not in message(strict, body, ChildGrants(hosts=("*",)))
