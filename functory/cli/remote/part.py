"""What the parts of a remote engine share: rows as the engine has them, and what a server does not offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from functory.engine.errors import Refused
from functory.remote.client import RemoteFunctory


class Part:
    """One noun of the engine. A name that the API does not offer is refused."""

    def __init__(self, server: RemoteFunctory) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise here_only(f"{type(self).__name__.lower()}.{name}")


def here_only(what: str) -> Refused:
    """The error for what needs the machine of the server."""
    return Refused(
        "this works on the machine of the server only",
        f"the command speaks to a server, and its API does not offer {what}",
        "run it on that machine: FUNCTORY_URL= functory …",
    )


def plain(row: Any) -> Any:
    """A row, or a list of rows, as the engine has them: dicts with times."""
    return msgspec.to_builtins(row, builtin_types=(datetime,))


def ordered(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The fields of a row in the order in which commands print them, without the others."""
    return {name: row[name] for name in names if name in row}


class WholeRow(dict[str, Any]):
    """A row of a list that reads the rest of itself when a field is asked for that lists do not have."""

    def __init__(self, row: Mapping[str, Any], read: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__(row)
        self._read: Callable[[], Mapping[str, Any]] | None = read

    def __missing__(self, name: str) -> Any:
        self._complete()
        return dict.__getitem__(self, name) if dict.__contains__(self, name) else self._absent(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The field ``name``; ``default`` when the whole row has none."""
        if not dict.__contains__(self, name):
            self._complete()
        return super().get(name, default)

    def __or__(self, more: Any) -> WholeRow:
        """The row with more fields; the rest of it can still be read."""
        return WholeRow({**self, **more}, self._read or dict)

    def _complete(self) -> None:
        read, self._read = self._read, None
        if read is not None:
            self.update({name: value for name, value in read().items() if not dict.__contains__(self, name)})

    @staticmethod
    def _absent(name: str) -> Any:
        raise KeyError(name)
