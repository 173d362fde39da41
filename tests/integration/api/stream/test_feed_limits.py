"""A server process has at most 500 streams: the next one is refused, and gets in when another one has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from functory.api.access.rights import OF_ROLE, Caller
from functory.api.stream import feed as stream_feed
from functory.api.stream.feed import Feed, StreamRefused
from functory.api.stream.topics import parse
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.support.event_stream import stream, streaming

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def functory(database_url: str, tmp_path: Path) -> Iterator[Functory]:
    """A client of a database, as a server process has one: no role runs in it."""
    settings = {"home": tmp_path / "home", "database_url": database_url, "broker_url": "none://"}
    with Functory(Settings.model_validate(settings)) as made:
        yield made


def user(number: int) -> Caller:
    return Caller(f"user {number}", "user", "admin", OF_ROLE["admin"])


def test_the_stream_behind_the_five_hundredth_is_refused_until_one_ends(functory: Functory) -> None:
    async def open_all() -> None:
        feed = Feed(
            functory.database,
            still_valid=lambda _caller: True,
            visible=lambda ids, _scope: set(ids),
            bar=lambda _scope: {},
        )
        try:
            clients = await asyncio.gather(*(feed.subscribe(user(one), parse("bar")) for one in range(500)))
            with pytest.raises(StreamRefused, match="this server has 500 streams open"):
                await feed.subscribe(user(500), parse("bar"))
            assert len(feed) == 500
            feed.remove(clients[7])
            await feed.subscribe(user(500), parse("bar"))
        finally:
            feed.close()

    asyncio.run(open_all())


def test_the_refusal_says_that_it_is_the_server_which_is_full(
    functory: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "MAX_STREAMS", 2)
    with streaming(functory) as url, stream(url, "bar"), stream(url, "bar", name="vic"):
        refused = httpx.get(f"{url}/api/v1/stream?topics=bar", headers={"x-name": "bill"})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "10"
        assert "this server has 2 streams open" in refused.json()["detail"]
