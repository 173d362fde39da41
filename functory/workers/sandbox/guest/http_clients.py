"""Adds the headers of a run's lineage to the requests of Python's HTTP clients, over HTTP and HTTPS.

The clients are ``http.client`` (with it ``urllib``, ``urllib3`` and ``requests``), ``h11`` and ``h2`` (with them
``httpx``), and ``aiohttp``. Each is changed when user code imports it, in the one place where a request has all its
headers. A request without the headers is better than none: an error in here changes nothing for user code. What user
code writes on a socket by itself gets none.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class HttpClients:
    """The HTTP clients of this process. ``lineage`` has the headers of the run that it serves now."""

    def __init__(self) -> None:
        self.lineage: Mapping[str, str] = {}
        self._installed = False
        self._patches: dict[str, Callable[[ModuleType], None]] = {
            "http.client": self._patch_http_client,
            "h11": self._patch_h11,
            "h2.connection": self._patch_h2,
            "aiohttp.client_reqrep": self._patch_aiohttp,
        }

    def set_lineage(self, lineage: Mapping[str, str]) -> None:
        """Serve a run with these headers; called before its code is loaded."""
        self.lineage = lineage
        if lineage and not self._installed:
            self._installed = True
            for name in self._patches:
                if name in sys.modules:
                    self._patch(sys.modules[name])
            sys.meta_path.insert(0, _ClientFinder(self._patches, self._patch))

    def _patch(self, module: ModuleType) -> None:
        # Another release of a client may lack what is changed here.
        with contextlib.suppress(Exception):
            self._patches[module.__name__](module)

    def _missing(self, headers: Iterable[tuple[Any, Any]]) -> list[tuple[str, str]]:
        """Return those of ``lineage`` that a request with ``headers`` needs.

        A request that is part of a trace stays part of it: its ``traceparent`` is kept, since a second one would make
        both invalid. A further ``tracestate`` is joined with the first (W3C Trace Context, 3.3.1.1).
        """
        given = {(_text(name).lower(), _text(value)) for name, value in headers}
        names = {name for name, _ in given}
        return [
            (name, value)
            for name, value in self.lineage.items()
            if (name, value) not in given and not (name == "traceparent" and name in names)
        ]

    def _patch_http_client(self, module: ModuleType) -> None:
        original = module.HTTPConnection.endheaders

        def endheaders(connection: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                lines = [line.partition(b":") for line in connection._buffer[1:]]
                for name, value in self._missing((name, value.strip()) for name, _, value in lines):
                    connection.putheader(name, value)
            return original(connection, *args, **kwargs)

        module.HTTPConnection.endheaders = endheaders

    def _patch_h11(self, module: ModuleType) -> None:
        original = module.Connection.send_with_data_passthrough

        def send_with_data_passthrough(connection: Any, event: Any) -> Any:
            if isinstance(event, module.Request):
                with contextlib.suppress(Exception):
                    event = module.Request(
                        method=event.method,
                        target=event.target,
                        headers=[*event.headers.raw_items(), *self._missing(event.headers)],
                        http_version=event.http_version,
                    )
            return original(connection, event)

        module.Connection.send_with_data_passthrough = send_with_data_passthrough

    def _patch_h2(self, module: ModuleType) -> None:
        original = module.H2Connection.send_headers

        def send_headers(connection: Any, stream_id: int, headers: Any, *args: Any, **kwargs: Any) -> Any:
            headers = list(headers)
            with contextlib.suppress(Exception):
                if any(_text(header[0]) == ":method" for header in headers):
                    headers += self._missing((header[0], header[1]) for header in headers)
            return original(connection, stream_id, headers, *args, **kwargs)

        module.H2Connection.send_headers = send_headers

    def _patch_aiohttp(self, module: ModuleType) -> None:
        original = module.ClientRequest.send

        async def send(request: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                for name, value in self._missing(request.headers.items()):
                    request.headers.add(name, value)
            return await original(request, *args, **kwargs)

        module.ClientRequest.send = send


class _ClientFinder(MetaPathFinder):
    """Finds the modules of the clients as the other finders do, and has each changed once it is loaded."""

    def __init__(self, names: Iterable[str], patch: Callable[[ModuleType], None]) -> None:
        self._names = frozenset(names)
        self._patch = patch

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                self._change_loader(spec.loader)
                return spec
        return None

    def _change_loader(self, loader: Any) -> None:
        # A loader that is a class serves all modules of its kind.
        if loader is None or isinstance(loader, type):
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._patch(module)

        with contextlib.suppress(AttributeError):
            loader.exec_module = exec_module


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
