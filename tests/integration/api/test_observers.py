"""Who may read what the server says about itself: this machine, or the bearer of a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from functory.api import create_app
from functory.client.functory import Functory
from functory.engine.settings import Settings
from functory.roles import process

TOKEN = {"metrics_token": "a token of some length"}
BEARER = {"authorization": "Bearer a token of some length"}
LOCAL, PUBLIC = "http://127.0.0.1:7400", "http://functory.example.com"
GUARDED = ("/metrics", "/openapi.json")


def client(folder: Path, base: str = LOCAL, **settings: Any) -> TestClient:
    functory = Functory(Settings(home=folder / "home", **settings))
    return TestClient(create_app(functory), base_url=base)


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_token_only_this_machine_reads_them(tmp_path: Path, path: str) -> None:
    assert client(tmp_path).get(path).status_code == 200
    # A name that is not this machine's: a web page whose name was pointed at it, or a proxy.
    assert client(tmp_path, PUBLIC).get(path).status_code == 403
    refused = client(tmp_path, LOCAL, host="0.0.0.0").get(path)
    assert refused.status_code == 403
    assert "FUNCTORY_METRICS_TOKEN" in refused.json()["detail"]


@pytest.mark.parametrize("path", GUARDED)
def test_a_proxy_on_this_machine_opens_them_to_nobody(tmp_path: Path, path: str) -> None:
    asker = client(tmp_path)
    assert asker.get(path, headers={"x-forwarded-for": "10.0.0.7"}).status_code == 403
    assert client(tmp_path, public_url=PUBLIC).get(path).status_code == 403


@pytest.mark.parametrize("path", GUARDED)
def test_with_a_token_its_bearer_reads_them(tmp_path: Path, path: str) -> None:
    asker = client(tmp_path, PUBLIC, host="0.0.0.0", **TOKEN)
    assert asker.get(path, headers=BEARER).status_code == 200
    for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic a token of some length"}):
        refused = asker.get(path, headers=wrong)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert client(tmp_path, LOCAL, **TOKEN).get(path).status_code == 401


def test_readiness_is_open_to_all_and_its_parts_are_not(tmp_path: Path) -> None:
    shown = client(tmp_path).get("/readyz").json()
    assert set(shown) == {"ready", "degraded", "checks"}
    asker = client(tmp_path, PUBLIC, host="0.0.0.0", **TOKEN)
    stranger, known = asker.get("/readyz"), asker.get("/readyz", headers=BEARER)
    assert stranger.status_code == known.status_code
    assert stranger.json() == {"ready": known.json()["ready"]}
    assert set(known.json()) == {"ready", "degraded", "checks"}
    assert asker.get("/healthz").json() == {"status": "alive"}


def test_the_port_for_metrics_has_an_address_of_its_own(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, host="0.0.0.0", metrics_port=0)
    with process.serve_metrics(settings) as url:
        assert url is not None and url.startswith("http://127.0.0.1:")
        assert httpx.get(url).status_code == 200
