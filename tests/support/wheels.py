"""A package index for tests on 127.0.0.1 (PEP 503 pages, PEP 658 metadata), and wheels made by hand.

    index.publish("spam", "1.0", {"spam.py": "VALUE = 1"}, requires=["ham>=2"])

The index can require a password, speak TLS, stop, delay the download of a wheel, and replace a wheel.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import ssl
import threading
import zipfile
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.patience import patient


def wheel(
    name: str, version: str, files: Mapping[str, str | bytes], requires: Sequence[str] = ()
) -> tuple[bytes, bytes]:
    """The bytes of a pure wheel, and those of its METADATA."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = "".join(
        f"{line}\n"
        for line in (
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            *(f"Requires-Dist: {r}" for r in requires),
        )
    ).encode()
    made: dict[str, bytes] = {
        path: text.encode() if isinstance(text, str) else text for path, text in files.items()
    }
    made[f"{info}/METADATA"] = metadata
    made[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = []
    for path, content in made.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    made[f"{info}/RECORD"] = ("".join(lines) + f"{info}/RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in made.items():
            archive.writestr(path, content)
    return buffer.getvalue(), metadata


class Index:
    """The index; ``url`` is its simple page, ``requests`` are the requested paths."""

    def __init__(self, password: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.password = password
        self._scheme = "https" if tls else "http"
        self.requests: list[str] = []
        # A download waits for `open`; `asked` is set when it has begun to wait.
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()
        self._files: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        user = f"reader:{self.password}@" if self.password else ""
        return f"{self._scheme}://{user}127.0.0.1:{self.port}/simple"

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str | bytes] | None = None,
        requires: Sequence[str] = (),
    ) -> None:
        """Offer a wheel; it replaces a wheel of the same name and version."""
        module = name.replace("-", "_")
        content, metadata = wheel(
            name, version, files or {f"{module}.py": f"VERSION = {version!r}\n"}, requires
        )
        file = f"{module}-{version}-py3-none-any.whl"
        self._files[file], self._files[f"{file}.metadata"] = content, metadata

    def publish_source(self, name: str, version: str) -> None:
        """Offer only a source distribution."""
        self._files[f"{name}-{version}.tar.gz"] = b"not even an archive"

    def downloads(self) -> list[str]:
        """The downloaded wheels, in the order of the requests."""
        return [path.rpartition("/")[2] for path in self.requests if path.endswith(".whl")]

    def page(self, name: str) -> str | None:
        """The links of a package."""
        links = []
        for file in sorted(self._files):
            if (
                file.endswith(".metadata")
                or re.sub(r"[-_.]+", "-", re.split(r"-\d", file)[0]).lower() != name
            ):
                continue
            extra = ""
            if f"{file}.metadata" in self._files:
                extra = f' data-core-metadata="sha256={_sha256(self._files[f"{file}.metadata"])}"'
            links.append(f'<a href="/files/{file}#sha256={_sha256(self._files[file])}"{extra}>{file}</a><br>')
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>" if links else None

    def file(self, name: str) -> bytes | None:
        return self._files.get(name)

    def replace(self, name: str, content: bytes) -> None:
        """Offer other bytes under the name of a file."""
        self._files[name] = content

    def stop(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _handler(index: Index) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            index.requests.append(self.path)
            given = self.headers.get("Authorization", "")
            wanted = base64.b64encode(f"reader:{index.password}".encode()).decode()
            if index.password and given != f"Basic {wanted}":
                self._answer(401, b"who are you?", "text/plain")
                return
            _, folder, name, *_ = [*self.path.split("/"), ""]
            if folder == "files" and name.endswith(".whl"):
                index.asked.set()
                index.open.wait(patient(60))
            content = index.file(name) if folder == "files" else (index.page(name) or "").encode() or None
            kind = "text/html" if folder == "simple" else "application/octet-stream"
            self._answer(200 if content else 404, content or b"nothing here", kind)

        def _answer(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="packages"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
