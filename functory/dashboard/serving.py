"""Serves the dashboard: the files that its build has made, and ``index.html`` for the address of every page.

All files are read once, when the application is made: no path of a request ever reaches the file system. Files below
``/assets/`` carry the hash of their content in their names, so browsers keep them for ever. ``index.html`` is asked for
again each time, and the answer is 304 while it is the same.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

STATIC = Path(__file__).with_name("static")

FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"

# First words of the addresses of pages (dashboard/src/urls.ts).
PAGES = frozenset(
    {
        "", "agents", "approvals", "audit", "batches", "calls", "events", "executions", "find", "functions",
        "health", "login", "map", "me", "models", "new", "packs", "people", "queues", "runs", "schedules", "secrets",
        "spend", "suppressions", "trees", "triggers", "watches", "webhooks",
    }
)  # fmt: skip

# The parts of pages in all their states, for those who change the dashboard.
PARTS = "/dev/parts"

_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Functory</title></head><body>
<h1>The dashboard is not built</h1>
<p>The API of this server works. To build the dashboard, run <code>make dashboard</code> in the project's folder, then
start the server again. It needs Node.js 20 or newer and npm's registry. A wheel of Functory contains the dashboard.</p>
</body></html>
"""


@dataclass(frozen=True)
class StaticFile:
    """A file of the build, as it is sent."""

    content: bytes
    # Encodings that are smaller, the smallest first.
    encoded: dict[str, bytes]
    media_type: str
    etag: str
    cache: str


def mount(app: FastAPI, static: Path = STATIC, *, dev: bool = False) -> None:
    """Serve the dashboard for each GET that no route of ``app`` takes. Other requests are answered as before. Only
    with ``dev`` it has the page of its parts.
    """
    index = static / "index.html"
    files = _files_as_of(static, index.stat().st_mtime_ns) if index.is_file() else {}
    app.router.routes.append(
        Dashboard({name: file for name, file in files.items() if dev or not name.startswith("/dev/")})
    )


def is_built(static: Path = STATIC) -> bool:
    """True when the build's files are there."""
    return (static / "index.html").is_file()


@lru_cache(maxsize=4)
def _files_as_of(static: Path, _built: int) -> dict[str, StaticFile]:
    """The files of a build by their addresses; ``_built`` is when it was made. All applications of a process share
    them: they are read and compressed once.
    """
    files: dict[str, StaticFile] = {}
    for path in sorted(static.rglob("*")):
        if path.is_file() and path.suffix != ".br":
            content = path.read_bytes()
            encoded = {"gzip": gzip.compress(content, 9, mtime=0)}
            # The build makes these: Python has no Brotli.
            brotli = path.with_name(f"{path.name}.br")
            if brotli.is_file():
                encoded = {"br": brotli.read_bytes()} | encoded
            name = path.relative_to(static).as_posix()
            files[f"/{name}"] = StaticFile(
                content,
                {coding: one for coding, one in encoded.items() if len(one) < len(content) * 0.9},
                mimetypes.guess_type(path.name)[0] or "application/octet-stream",
                f'"{hashlib.sha256(content).hexdigest()[:24]}"',
                FOREVER if name.startswith("assets/") else ASK_AGAIN,
            )
    return files


class Dashboard(BaseRoute):
    """The route of files and pages. It takes GET requests alone, so that ``POST /events`` and ``GET /events`` can be
    two things.
    """

    path = "/"
    name = "dashboard"

    def __init__(self, files: dict[str, StaticFile]) -> None:
        self._files = files

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for a file or page."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        answer = self._answer(Request(scope))
        return (Match.NONE, {}) if answer is None else (Match.FULL, {"endpoint": answer})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer that was found."""
        await scope["endpoint"](scope, receive, send)

    def _answer(self, request: Request) -> Response | None:
        path = request.url.path
        if path in self._files and path != "/index.html":
            return _send(self._files[path], request)
        if path == PARTS and (parts := self._files.get(f"{PARTS}.html")):
            return _send(parts, request)
        is_page = path.split("/", 2)[1] in PAGES
        # A person who mistypes an address gets a page that says so.
        if not is_page and (path.startswith("/api/") or "text/html" not in request.headers.get("accept", "")):
            return None
        status = 200 if is_page else 404
        index = self._files.get("/index.html")
        if index is None:
            return HTMLResponse(_NOT_BUILT, status, {"cache-control": "no-store"}) if is_page else None
        return _send(index, request, status)


def _send(file: StaticFile, request: Request, status: int = 200) -> Response:
    headers = {"cache-control": file.cache, "etag": file.etag, "vary": "accept-encoding"}
    if status == 200 and file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    accepted = _accepted(request.headers.get("accept-encoding", ""))
    for coding, content in file.encoded.items():
        if coding in accepted:
            return Response(content, status, headers | {"content-encoding": coding}, file.media_type)
    return Response(file.content, status, headers, file.media_type)


def _accepted(header: str) -> set[str]:
    """The codings of ``Accept-Encoding`` that are not refused with ``q=0``."""
    found: set[str] = set()
    for one in header.lower().split(","):
        coding, *parameters = (part.strip() for part in one.split(";"))
        if not any(re.fullmatch(r"q=0(\.0*)?", part) for part in parameters):
            found.add(coding)
    return found
