"""The Python clients of a server: verbs, rows, errors, and what happens to a request whose answer is lost."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import functory
from functory.client.functory import Functory
from functory.engine.errors import (
    Conflict,
    ExecutionFailed,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
    Uncertain,
    VersionChanged,
    WaitTimeout,
)
from functory.remote import rows
from functory.remote.aio import AsyncRemoteFunctory
from functory.remote.client import RemoteFunctory
from functory.remote.connection import Connection
from tests.support.patience import patient


def test_a_call_over_the_server_returns_what_a_local_call_returns(
    engine: Functory, remote: RemoteFunctory
) -> None:
    assert remote.call("add", 1, b=4) == engine.call("add", 1, b=4) == 5
    assert remote.call("add", a=1) == 2
    assert remote.call("add@1", 1, 2) == 3


def test_handles_are_gathered_in_their_order(remote: RemoteFunctory) -> None:
    handles = [remote.submit("add", number, 0) for number in (3, 1, 2)]
    assert remote.gather(handles, timeout=patient(60)) == [3, 1, 2]


def test_a_failed_execution_raises_the_same_error_on_both(engine: Functory, remote: RemoteFunctory) -> None:
    said = []
    for client in (engine, remote):
        with pytest.raises(ExecutionFailed) as raised:
            client.call("fail", "no such luck")
        said.append((raised.value.what, raised.value.why, raised.value.state, raised.value.error["type"]))
        assert "no such luck" in raised.value.error["traceback"]
    assert said[0] == said[1]


def test_a_wait_that_is_too_short_leaves_the_execution_running(remote: RemoteFunctory) -> None:
    handle = remote.submit("slow", 1.0)
    with pytest.raises(WaitTimeout, match=handle.id):
        handle.result(timeout=0.05)
    assert handle.result(timeout=patient(60)) == "slept"


def test_rows_are_typed_frozen_and_read_page_by_page(engine: Functory, remote: RemoteFunctory) -> None:
    for number in range(5):
        engine.call("add", number)
    found = remote.executions.list(function="add")
    assert isinstance(found.first(), rows.ExecutionRow)
    ids = [row.id for page in found.pages(2) for row in page]
    assert ids == [row.id for row in found] == sorted(ids, reverse=True)
    assert len(ids) >= 5
    assert [row.id for row in found.all(limit=3)] == ids[:3]
    first = remote.executions.get(ids[0])
    assert first.created_at.tzinfo is not None
    with pytest.raises(AttributeError):
        first.state = "queued"  # type: ignore[misc]


def test_an_event_arrives_once_and_is_read_back(remote: RemoteFunctory) -> None:
    id_ = remote.emit("remote.seen", {"big": 2**70, "text": "ä\U0001f600"}, subject="s1")
    found = remote.events.get(id_)
    assert (found.type, found.subject) == ("remote.seen", "s1")
    ids = remote.emit_many([{"type": "remote.many", "data": number} for number in range(3)])
    assert [row.id for row in remote.events.list(type="remote.many")] == ids[::-1]


def test_a_decorated_function_is_saved_on_the_server(remote: RemoteFunctory) -> None:
    @remote.register_function(timeout=9)
    def saved_by_decorator(text: str) -> str:
        return text.upper()

    assert saved_by_decorator("here") == "HERE"
    assert remote.call("saved_by_decorator", "there") == "THERE"
    assert remote.functions.get("saved_by_decorator").limits["timeout"] == 9


def test_a_trigger_is_saved_and_its_warnings_are_python_warnings(remote: RemoteFunctory) -> None:
    row = remote.register_trigger(
        "remote-add", on={"type": ["remote.start"]}, function="add", input={"a": "{{ event.data }}"}
    )
    assert (row.name, row.version, row.created) == ("remote-add", 1, True)
    assert remote.triggers.get("remote-add").definition["function"] == "add"
    remote.triggers.delete("remote-add")


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (lambda r: r.functions.get("missing"), NotFound),
        (lambda r: r.call("missing"), NotFound),
        (lambda r: r.call("add", a="no number"), Invalid),
        (lambda r: r.emit("not a type!"), Invalid),
        (lambda r: r.functions.list(q="x" * 300).all(), Invalid),
        (lambda r: r.functions.activate("add", version=1, expected_version=7), VersionChanged),
        (lambda r: r.executions.cancel(r.run("add", {"a": 1}).id), Conflict),
        (lambda r: RemoteFunctory(r.connection.url, token="fnc_wrong").me.get(), Refused),
    ],
)
def test_a_problem_of_the_server_is_the_error_that_the_engine_would_raise(
    remote: RemoteFunctory, work, kind
) -> None:
    with pytest.raises(kind) as raised:
        work(remote)
    assert raised.value.what


def test_a_start_whose_answer_is_lost_makes_one_execution(remote: RemoteFunctory, served) -> None:
    before = {row.id for row in remote.executions.list(function="add")}
    with _losing_answers(served[1], lose=2) as (url, seen):
        with RemoteFunctory(url, token=served[2]) as client:
            assert client.submit("add", a=40).result(timeout=patient(60)) == 41
        assert len([one for one in seen if one.startswith(b"POST")]) == 3
    assert len({row.id for row in remote.executions.list(function="add")} - before) == 1


def test_a_change_without_a_key_is_not_sent_twice(served) -> None:
    with _losing_answers(served[1], lose=9) as (url, seen):
        with RemoteFunctory(url, token=served[2]) as client, pytest.raises(Uncertain, match="not known"):
            client.functions.disable("add")
        assert len(seen) == 1
    served[0].functions.enable("add", author="ada")


def test_a_server_that_is_away_is_said_after_a_few_tries() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    pauses: list[float] = []
    gone = Connection(f"http://127.0.0.1:{port}", sleep=pauses.append, draw=lambda: 0.5)
    with pytest.raises(Unavailable, match="cannot be reached"):
        gone.request("GET", "/me")
    assert pauses == [0.1, 0.2, 0.4]


def test_the_token_is_in_no_text_of_the_client(served, caplog: pytest.LogCaptureFixture) -> None:
    client = RemoteFunctory(served[1], token=served[2])
    with pytest.raises(NotFound) as raised:
        client.functions.get("missing")
    said = [repr(client), repr(client.connection), str(raised.value), caplog.text]
    assert not [text for text in said if served[2] in text]


@pytest.mark.parametrize("url", ["ftp://x", "https://", "https://ada:pw@x", "https://x?token=1", "x:y"])
def test_an_address_that_is_wrong_or_holds_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Invalid) as raised:
        RemoteFunctory(url)
    assert "pw" not in str(raised.value)


def test_the_names_of_the_module_speak_to_the_server_of_the_environment(
    served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNCTORY_URL", served[1])
    monkeypatch.setenv("FUNCTORY_TOKEN", served[2])
    try:
        assert functory.call("add", 20, 2) == 22
        assert functory.add(1, 1) == 2
        assert functory.gather(functory.submit("add", 1), functory.submit("add", 2)) == [2, 3]
        assert isinstance(functory.engine_of_process(), RemoteFunctory)
        assert isinstance(functory.Functory(), RemoteFunctory)
    finally:
        functory.close()


def test_an_address_makes_a_client_of_a_server(served) -> None:
    with functory.Functory(served[1], token=served[2]) as client:
        assert client.me.get().name == "ada"


def test_an_async_client_sends_nothing_from_the_thread_of_its_loop(
    served, monkeypatch: pytest.MonkeyPatch
) -> None:
    senders: set[int] = set()
    send = Connection.request

    def watched(self: Connection, *args: Any, **kwargs: Any) -> Any:
        senders.add(threading.get_ident())
        return send(self, *args, **kwargs)

    async def work() -> list[int]:
        async with AsyncRemoteFunctory(served[1], token=served[2]) as client:
            started = [await client.submit("add", number, 0) for number in range(12)]
            results = await client.gather(started, timeout=patient(60))
            assert await client.call("add", 1, 2) == 3
            assert [row async for row in client.executions.list(function="add")]
            assert (await client.me.get()).name == "ada"
            assert await (await client.submit("add", 5)) == 6
            with pytest.raises(NotFound):
                await client.functions.get("missing")
        return results

    monkeypatch.setattr(Connection, "request", watched)
    assert asyncio.run(work()) == list(range(12))
    assert threading.get_ident() not in senders
    assert len(senders) > 1


def test_more_waits_than_threads_leave_a_thread_for_other_work(served) -> None:
    async def work() -> int:
        async with AsyncRemoteFunctory(served[1], token=served[2]) as client:
            slow = [asyncio.ensure_future((await client.submit("slow", 1.5)).result()) for _ in range(12)]
            found = await asyncio.wait_for(client.functions.list().all(), 1.0)
            assert not all(one.done() for one in slow)
            await asyncio.gather(*slow)
            return len(found)

    assert asyncio.run(work()) >= 3


def test_tokens_are_kept_in_a_file_that_only_their_user_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functory.remote import address

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("FUNCTORY_TOKEN", raising=False)
    path = address.store_token("https://one.example/", "fnc_1")
    assert path.stat().st_mode & 0o777 == 0o600
    assert address.token_for("https://one.example") == "fnc_1"
    path.chmod(0o644)
    with pytest.raises(Invalid, match="not private"):
        address.token_for("https://one.example")
    path.chmod(0o600)
    address.store_token("https://one.example", None)
    assert address.token_for("https://one.example") is None


@contextmanager
def _losing_answers(url: str, *, lose: int) -> Iterator[tuple[str, list[bytes]]]:
    """A server in between that carries requests on, and loses the answers to the first ones."""
    host, port = url.removeprefix("http://").split(":")
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=carry, args=(client,), daemon=True).start()

        def carry(client: socket.socket) -> None:
            with client, socket.create_connection((host, int(port))) as server:
                while request := client.recv(65536):
                    seen.append(request)
                    while not _complete(request):
                        request += client.recv(65536)
                    server.sendall(request)
                    answer = server.recv(65536)
                    if len(seen) <= lose:
                        return
                    while not _complete(answer):
                        answer += server.recv(65536)
                    client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen


def _complete(message: bytes) -> bool:
    head, gap, body = message.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        ),
        0,
    )
    return bool(gap) and len(body) >= length


def test_a_server_that_only_a_folder_names_never_gets_the_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functory.remote import address

    url = "https://two.example"
    (tmp_path / "functory.toml").write_text(f'url = "{url}/"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("FUNCTORY_URL", raising=False)
    monkeypatch.setenv("FUNCTORY_TOKEN", "fnc_environment")
    with pytest.raises(Invalid, match="FUNCTORY_TOKEN is not sent to https://two") as raised:
        RemoteFunctory()
    assert "fnc_environment" not in str(raised.value)
    assert address.token_for("https://named-in-code.example") == "fnc_environment"
    address.store_token(url, "fnc_stored")
    assert address.token_for(url) == "fnc_stored"
    monkeypatch.setenv("FUNCTORY_URL", url)
    assert address.token_for(url) == "fnc_environment"
