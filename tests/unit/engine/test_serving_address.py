"""Other processes of a project find out where its server really listens."""

from __future__ import annotations

from pathlib import Path

from functory.engine import serving_address
from functory.engine.serving_address import refuses_links, server_url
from functory.engine.settings import Settings
from functory.engine.sources.webhooks import webhook_url

URL = "http://127.0.0.1:49152"


def test_addresses_are_those_of_the_server_while_it_serves(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, port=7400)
    assert webhook_url(settings, "github") == "http://127.0.0.1:7400/webhooks/github"
    with serving_address.announced(settings, URL, takes_links=True):
        assert webhook_url(settings, "github") == f"{URL}/webhooks/github"
        with serving_address.announced(settings, "http://127.0.0.1:2", takes_links=False):
            assert server_url(settings) == URL, "the first server is named"
            assert not refuses_links(settings)
    # What a killed server would leave is the file without its lock.
    assert (tmp_path / serving_address.FILE).read_text().startswith(f"{URL}\n")
    assert server_url(settings) == "http://127.0.0.1:7400"
    assert (tmp_path / serving_address.FILE).stat().st_mode & 0o077 == 0


def test_a_public_address_goes_before_the_one_of_the_server(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, public_url="https://events.example.com")
    with serving_address.announced(settings, URL, takes_links=True):
        assert webhook_url(settings, "github") == "https://events.example.com/webhooks/github"
        assert server_url(settings) == URL


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "none", port=7400)
    with serving_address.announced(settings, URL, takes_links=True):
        assert server_url(settings) == "http://127.0.0.1:7400"
    assert not settings.home.exists()
