"""The files of the dashboard over HTTP: caching, compression, pages, and what is no page."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from functory.dashboard import serving

ROOT = Path(__file__).parents[2]
PAGE = {"accept": "text/html", "accept-encoding": "identity"}
# What the build has made of the script; nothing here reads it.
BROTLI = b"a small script"


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Functory</title>")
    (folder / "assets" / "app-1A2B.js").write_text("export const text = 'functory';\n" * 200)
    (folder / "assets" / "app-1A2B.js.br").write_bytes(BROTLI)
    (tmp_path / "secret.txt").write_text("not served")
    return folder


@pytest.fixture
def client(static: Path) -> Iterator[TestClient]:
    app = FastAPI()

    @app.post("/events")
    def cloudevents() -> dict[str, bool]:
        return {"stored": True}

    serving.mount(app, static)
    with TestClient(app) as made:
        yield made


def test_every_page_is_the_same_file_and_is_asked_for_again(client: TestClient) -> None:
    for path in ("/", "/executions?state=dead", "/functions/a%2Fb/v/3", "/events"):
        answer = client.get(path, headers=PAGE)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "no-cache"
    again = client.get("/", headers=PAGE | {"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_files_with_a_hash_are_kept_for_ever_and_sent_compressed(client: TestClient, static: Path) -> None:
    answer = client.get("/assets/app-1A2B.js", headers={"accept-encoding": "gzip"})
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.content == (static / "assets" / "app-1A2B.js").read_bytes()
    assert len(gzip.compress(answer.content)) < len(answer.content) / 5


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("BR;q=0.5, gzip", "br"),
        ("br;q=0, gzip;q=0.1", "gzip"),
        ("brotli, xgzip, gzip;q=0.000", None),
        ("", None),
    ],
)
def test_the_smallest_coding_is_sent_that_the_browser_takes(
    client: TestClient, accepted: str, coding: str | None
) -> None:
    with client.stream("GET", "/assets/app-1A2B.js", headers={"accept-encoding": accepted}) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["vary"] == "accept-encoding"
    assert (sent == BROTLI) == (coding == "br")
    assert client.get("/assets/app-1A2B.js.br", headers={"accept": "*/*"}).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../secret.txt",
        "/assets/%2e%2e%2f%2e%2e%2fsecret.txt",
        "/../secret.txt",
        "/assets/nothing.js",
        "/index.html",
    ],
)
def test_no_path_reaches_a_file_outside_of_the_build(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"accept": "*/*"})
    assert answer.status_code == 404
    assert b"not served" not in answer.content


def test_other_methods_and_the_api_are_answered_as_before(client: TestClient) -> None:
    assert client.post("/events").json() == {"stored": True}
    assert client.post("/executions").status_code == 404
    assert client.get("/api/v1/nothing", headers=PAGE).status_code == 404


def test_the_page_of_the_parts_is_there_in_development_alone(client: TestClient, static: Path) -> None:
    (static / "dev").mkdir()
    (static / "dev" / "parts.html").write_text("<!doctype html><title>Parts</title>")
    (static / "dev" / "parts.js").write_text("export const parts = 1;")
    os.utime(static / "index.html", ns=(0, 0))
    development, server = FastAPI(), FastAPI()
    serving.mount(development, static, dev=True)
    serving.mount(server, static)
    assert "Parts" in TestClient(development).get("/dev/parts", headers=PAGE).text
    assert TestClient(development).get("/dev/parts.js").status_code == 200
    # An address that is no page: the dashboard says so.
    answer = TestClient(server).get("/dev/parts", headers=PAGE)
    assert (answer.status_code, "Functory" in answer.text) == (404, True)
    assert TestClient(server).get("/dev/parts.js", headers={"accept": "*/*"}).status_code == 404


def test_a_person_who_mistypes_gets_a_page_and_a_program_gets_a_404(client: TestClient) -> None:
    assert client.get("/exexutions", headers=PAGE).status_code == 404
    assert client.get("/exexutions", headers=PAGE).text.startswith("<!doctype html>")
    assert (
        client.get("/exexutions", headers={"accept": "application/json"}).headers["content-type"]
        == "application/json"
    )


def test_without_a_build_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    app = FastAPI()
    serving.mount(app, tmp_path)
    answer = TestClient(app).get("/", headers=PAGE)
    assert answer.status_code == 200
    assert "make dashboard" in answer.text


def test_every_page_of_the_dashboard_is_served() -> None:
    """An address that urls.ts builds and the server does not know would be a 404 after a reload."""
    source = (ROOT / "dashboard/src/urls.ts").read_text()
    built = set(re.findall(r'(?:list|one)\("(\w+)"\)|build\(\["(\w+)"', source))
    assert {first or second for first, second in built} <= serving.PAGES
