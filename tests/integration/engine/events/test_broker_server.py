"""A broker whose settings lose or refuse messages is named, and what is advised mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from functory.engine.errors import Unavailable
from functory.engine.events import broker_server
from functory.engine.server_problem import ServerProblem
from functory.engine.settings import load_settings
from tests.support.cli_shell import Shell


def problems(folder: Path, url: str) -> list[ServerProblem]:
    return broker_server.problems(load_settings(home=folder, broker_url=url))


@pytest.mark.redis
def test_settings_of_redis_are_named_until_they_are_changed(tmp_path: Path, own_redis_server: Any) -> None:
    url = own_redis_server.start().url
    assert problems(tmp_path, url) == []
    with own_redis_server.connect() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        (found,) = problems(tmp_path, url)
        assert "allkeys-lru" in found.why and not found.grave
        shell = Shell(tmp_path)
        shell.environment["FUNCTORY_BROKER_URL"] = url
        (first, second) = shell.json("doctor", "broker", status=None)
        assert (first["verdict"], second["verdict"]) == ("ok", "warn")
        client.execute_command(*second["advice"].split(",")[0].split())
        assert problems(tmp_path, url) == []
        client.replicaof("127.0.0.1", "1")
        (replica,) = problems(tmp_path, url)
        assert replica.grave and "FUNCTORY_BROKER_URL" in replica.try_
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.config_set("requirepass", "s3cret")
    with pytest.raises(Unavailable, match=r"(?s)Authentication.*redis://USER:PASSWORD@HOST") as missing:
        problems(tmp_path, url)
    assert "s3cret" not in str(missing.value)
    with pytest.raises(Unavailable, match=r"(?s)correct user and password") as wrong:
        problems(tmp_path, url.replace("redis://", "redis://:wr0ng@"))
    assert "wr0ng" not in str(wrong.value)
    given = url.replace("redis://", "redis://:s3cret@")
    assert problems(tmp_path, given) == []
    with pytest.raises(Unavailable, match="raise databases"):
        problems(tmp_path, given.rsplit("/", 1)[0] + "/99999")


@pytest.mark.rabbitmq
def test_rabbitmq_says_what_its_user_lacks(tmp_path: Path, rabbitmq_server: Any) -> None:
    with rabbitmq_server.virtual_host() as url:
        assert problems(tmp_path, url) == []
        with pytest.raises(Unavailable, match="rabbitmqctl add_vhost"):
            problems(tmp_path, url + "-gone")
        with pytest.raises(Unavailable, match="correct user and password"):
            problems(tmp_path, url.replace("guest:guest", "guest:wrong"))
        name = url.rpartition("/")[2]
        rabbitmq_server._management("PUT", f"users/{name}", {"password": "p", "tags": ""})
        none = {"configure": "^$", "write": "^$", "read": "^$"}
        rabbitmq_server._management("PUT", f"permissions/{name}/{name}", none)
        limited = url.replace("guest:guest", f"{name}:p")
        with pytest.raises(Unavailable, match="rabbitmqctl set_permissions"):
            problems(tmp_path, limited)
        rabbitmq_server._management("PUT", f"permissions/{name}/{name}", dict.fromkeys(none, ".*"))
        assert problems(tmp_path, limited) == []
