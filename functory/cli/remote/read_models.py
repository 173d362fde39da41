"""The rows of a server, as ``--json`` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.cli.remote.part import Part, plain

Found = Mapping[str, Any]


class ReadModels(Part):
    """As :class:`functory.read_models.ReadModels`. What commands have read of the server are its rows already."""

    def executions(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of executions."""
        return [dict(row) for row in found]

    def execution(self, id_: str) -> dict[str, Any]:
        """Everything about an execution but its input and its result."""
        return plain(self._server.executions.get(id_))

    def events(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of events."""
        return [dict(row) for row in found]

    def event(self, id_: str) -> dict[str, Any]:
        """An event with its data and the recorded decisions."""
        return plain(self._server.events.get(id_))

    def all_functions(self) -> list[dict[str, Any]]:
        """The rows of all functions by name."""
        return plain([*self._server.functions.list()])

    def function(self, name: str, number: int | None = None) -> dict[str, Any]:
        """A version of a function."""
        functions = self._server.functions
        return plain(functions.get(name) if number is None else functions.version(name, number))

    def difference(self, name: str, a: int, b: int) -> dict[str, Any]:
        """Two versions side by side."""
        return plain(self._server.functions.diff(name, a=a, b=b))

    def all_triggers(self) -> list[dict[str, Any]]:
        """All triggers by name with the numbers of all their decisions."""
        return plain([*self._server.triggers.definitions()])

    def trigger(self, name: str, *, totals: bool = False) -> dict[str, Any]:
        """A trigger with its definition."""
        return plain(self._server.triggers.get(name, totals=totals))

    def all_sources(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Sources by kind and name, with their configurations."""
        return plain(self._server.sources.configs(kind=kind))

    def source(self, kind: str, name: str) -> dict[str, Any]:
        """A source with its configuration."""
        return plain(self._server.sources.get(kind, name))

    def secrets(self) -> list[dict[str, Any]]:
        """The secrets with their users."""
        return plain(self._server.secrets.list())

    def all_models(self) -> list[dict[str, Any]]:
        """The language models by name."""
        return plain(self._server.models.list())

    def model(self, name: str) -> dict[str, Any]:
        """A language model."""
        return plain(self._server.models.get(name))

    def runs(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of runs of agents."""
        return [dict(row) for row in found]
