"""Where a server listens: on an address that the machine has, whatever its version of IP is."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from fastapi import FastAPI

from functory.api.server import Server
from functory.engine.errors import Conflict

# For documentation (RFC 5737): no machine has it.
ABSENT = "192.0.2.1"


def test_a_name_of_several_addresses_is_served_on_one_that_the_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = socket.getaddrinfo

    def both(host: str, *given: Any, **more: Any) -> Any:
        return [*looked_up(ABSENT, *given, **more), *looked_up("127.0.0.1", *given, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    server = Server(FastAPI(), "localhost", 0)
    server.start()
    monkeypatch.undo()
    try:
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))).close()
    finally:
        server.stop(1.0)


def test_an_address_that_the_machine_does_not_have_is_named() -> None:
    with pytest.raises(Conflict) as refused:
        Server(FastAPI(), ABSENT, 0).start()
    assert "ip addr shows them" in refused.value.try_
