"""Links to pages of the dashboard."""

from __future__ import annotations

import webbrowser
from types import SimpleNamespace
from typing import Any

import pytest

from functory.cli.output import dashboard_page


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a link needs of an engine."""
    monkeypatch.setenv("FUNCTORY_URL", "")
    return SimpleNamespace(settings=SimpleNamespace(public_url="https://functory.example.com/"))


def test_a_name_cannot_lead_to_another_page(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda link: not opened.append(link))
    dashboard_page.open_page(engine, "people", "../a b?c#d;$(e)", at="1&2")
    dashboard_page.open_source(engine, "imap", "post")
    assert opened == [
        "https://functory.example.com/people/..%2Fa%20b%3Fc%23d%3B%24%28e%29?at=1%262",
        "https://functory.example.com/watches/post?kind=imap",
    ]
