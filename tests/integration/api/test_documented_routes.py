"""The reference has every route of the API, and no route that there is not."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = ("http-api.md", "access.md", "stream.md")


def described() -> set[str]:
    """The paths of the API, with ``*`` for each parameter."""
    document = json.loads((ROOT / "dashboard" / "openapi.json").read_text())
    found = {path for path in document["paths"] if path.startswith("/api/v1/")}
    return {re.sub(r"{\w+}", "*", path.removeprefix("/api/v1")) for path in found}


def documented() -> tuple[set[str], set[str]]:
    """The paths that the tables name in full, and those that parts such as ``/result`` or ``:replay`` may mean."""
    whole: set[str] = set()
    parts: set[str] = set()
    for page in PAGES:
        for line in (ROOT / "docs" / "reference" / page).read_text().splitlines():
            if not line.startswith("| "):
                continue
            before = ""
            for text in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                path = text.split(" ")[-1].partition("?")[0].replace("/api/v1", "")
                if path.startswith((":", "/")) and before and text == path:
                    ends = [at.start() for at in re.finditer(r"[/:]", before)] + [len(before)]
                    parts |= {normal(before[:end] + path) for end in (0, *ends)}
                if path.startswith("/") and (text != path or not before):
                    before = path
                    whole.add(normal(path))
    return whole, parts


def normal(path: str) -> str:
    return re.sub(r"{\w+}|\b[A-Z]+\b", "*", path)


def test_every_route_is_in_the_reference() -> None:
    whole, parts = documented()
    known = whole | parts
    missing = [path for path in described() if not any(fits(path, one) for one in known)]
    assert sorted(missing) == []


def test_every_route_of_the_reference_exists() -> None:
    whole, _ = documented()
    assert len(whole) > 40
    # The routes of an identity provider are there only with one.
    routes = described() | {"/login/provider", "/login/callback"}
    assert sorted(one for one in whole if not any(fits(path, one) for path in routes)) == []


def fits(path: str, named: str) -> bool:
    return fnmatchcase(named, path) or fnmatchcase(path, named)
