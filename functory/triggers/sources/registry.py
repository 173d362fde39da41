"""The installed source plug-ins, and the stored sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from functory.engine import choices
from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound
from functory.engine.sources import file_watches, refusals
from functory.engine.sources.store import Hook, Sources
from functory.engine.tallies.reader import Tallies
from functory.engine.validation_messages import describe_faults
from functory.triggers.sources.plugin import SourcePlugin

GROUP = "functory.sources"
# The field of every configuration that the breaker reads.
RATE = "max_per_minute"

# In the class below ``list`` is a method.
_Rows = list[dict[str, Any]]


@cache
def installed_plugins() -> Mapping[str, SourcePlugin]:
    """The plug-ins by kind. One that cannot be loaded raises when it is looked up, not here."""
    return _InstalledPlugins({entry.name: entry for entry in entry_points(group=GROUP)})


class _InstalledPlugins(Mapping[str, SourcePlugin]):
    """Plug-ins, loaded at their first use: most commands need none, and a broken one must not stop the others."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries
        self._loaded: dict[str, SourcePlugin] = {}

    def __getitem__(self, name: str) -> SourcePlugin:
        if name not in self._loaded:
            try:
                made = self._entries[name].load()()
            except (Exception, SystemExit) as error:
                raise Invalid(
                    f"the source plug-in {name} cannot be loaded",
                    f"{type(error).__name__}: {error}",
                    f"mend or uninstall what installed {self._entries[name].value}",
                ) from error
            if not isinstance(made, SourcePlugin) or made.kind != name:
                raise Invalid(
                    f"the source plug-in {name} cannot be used",
                    f"{type(made).__name__} is no SourcePlugin with kind = {name!r}",
                    "see docs/reference/sources.md",
                )
            self._loaded[name] = made
        return self._loaded[name]

    def __iter__(self) -> Any:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


class Registry:
    """Sources of every kind, checked by their plug-ins before they are stored."""

    def __init__(
        self, database: Database, tallies: Callable[[], Tallies] | None = None, *, own_exchange: str = ""
    ) -> None:
        """``own_exchange`` is the exchange of Functory's own events, which no source may read."""
        self._database = database
        self._tallies = tallies or (lambda: Tallies(database))
        self._own_exchange = own_exchange
        self.store = Sources(database)

    def save(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Any],
        *,
        author: str = "",
        expected_version: int | None = None,
    ) -> dict[str, Any]:
        """Check and store a source. Returns its row as :meth:`get` does, and ``created``. Raises :class:`Invalid`,
        :class:`Conflict`. The stored rate stays, unless ``config`` names one, or None for that of the settings."""
        plugin = find_plugin(kind)
        made = parse_config(plugin, config)
        plugin.check(made)
        plugin.check_exchange(made, self._own_exchange)
        saved = self.store.save(
            kind,
            name,
            made.model_dump(mode="json", exclude_none=True),
            # The caller that saves a source again rarely knows that its rate was set by another one.
            keep={RATE} - set(config),
            author=author,
            expected_version=expected_version,
            hook=change_hook(plugin),
        )
        return self._with_numbers([saved])[0]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """A source's row, with ``events_last_hour`` and ``refusals``: why things that came became no event, with
        ``reason``, ``what`` in words, ``count`` and ``last_at``, newest first. Raises :class:`NotFound`.
        """
        self._check_kind(kind)
        return self._with_numbers([self.store.get(kind, name)])[0]

    def list(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All sources that are not deleted, by kind and name, each as :meth:`get` has it. Raises :class:`Invalid` for a
        ``kind`` that is neither installed nor that of a stored source.
        """
        found = self.store.list(kind)
        if not found:
            stored = {row["kind"] for row in self.store.list()} if kind is not None else ()
            choices.check("kind of source", [kind], sorted({*installed_plugins(), *stored}))
        return self._with_numbers(found)

    def pause(self, kind: str, name: str, *, note: str = "", author: str = "") -> None:
        """Write no more events of a source until it is resumed. Raises :class:`NotFound`."""
        self._check_kind(kind)
        self.store.pause(kind, name, note=note, author=author, hook=disable_hook(kind))

    def resume(self, kind: str, name: str, *, author: str = "") -> None:
        """Run a paused source again. Raises :class:`NotFound`."""
        self.store.resume(kind, name, author=author, hook=change_hook(find_plugin(kind)))

    def delete(self, kind: str, name: str, *, author: str = "") -> None:
        """Delete a source; its events stay. Raises :class:`NotFound`."""
        self._check_kind(kind)
        self.store.delete(kind, name, author=author, hook=disable_hook(kind))

    def files(self, name: str, limit: int = 1000) -> Sequence[dict[str, Any]]:
        """The files that a watch knows, by path. Raises :class:`NotFound`."""
        return file_watches.list_files(self._database, name, limit)

    def count_files(self, name: str) -> int:
        """The number of files that a watch knows. Raises :class:`NotFound`."""
        return file_watches.count(self._database, name)

    def rescan(self, name: str, *, content: bool = False) -> None:
        """Make a watch compare every file again (:func:`functory.engine.sources.file_watches.rescan`)."""
        file_watches.rescan(self._database, name, content=content)

    def _check_kind(self, kind: str) -> None:
        """Raise :class:`NotFound` for a kind that is neither installed nor that of a stored source."""
        if kind not in installed_plugins() and not self.store.list(kind):
            raise _unknown_kind(kind)

    def _with_numbers(self, rows: Sequence[dict[str, Any]]) -> _Rows:
        numbers = self._tallies().of_sources([(row["kind"], row["name"]) for row in rows])
        return [
            row
            | {
                "events_last_hour": numbers[row["kind"], row["name"]],
                "refusals": [asdict(one) for one in refusals.listed(row["refusals"])],
            }
            for row in rows
        ]


def disable_hook(kind: str) -> Hook | None:
    """The hook for pause and delete; None without the plug-in, so that its sources can still be paused and deleted."""
    try:
        return change_hook(find_plugin(kind))
    except (NotFound, Invalid):
        return None


def change_hook(plugin: SourcePlugin) -> Hook:
    """The plug-in's part in the transaction that changes a source."""

    def hook(tx: Tx, row: Mapping[str, Any]) -> None:
        if row["state"] == "enabled":
            plugin.on_enabled(tx, row, parse_config(plugin, row["config"]))
            return
        try:
            config = parse_config(plugin, row["config"])
        except Invalid:
            # It was valid for another release or on another machine. It can still be deleted.
            config = None
        plugin.on_disabled(tx, row, config)

    return hook


def find_plugin(kind: str) -> SourcePlugin:
    """A plug-in by its kind. Raises :class:`NotFound`."""
    known = installed_plugins()
    if kind not in known:
        raise _unknown_kind(kind)
    return known[kind]


def _unknown_kind(kind: str) -> NotFound:
    return NotFound(
        f"there is no kind of source {kind[:40]!r}", f"the kinds are {', '.join(installed_plugins())}"
    )


def parse_config(plugin: SourcePlugin, config: Mapping[str, Any]) -> Any:
    """A configuration as the plug-in's model. Raises :class:`Invalid` that names each wrong field."""
    try:
        return plugin.Config.model_validate(dict(config))
    except ValidationError as error:
        # A fault of several fields together has no field.
        faults = [
            ": ".join(filter(None, fault)) for fault in describe_faults(error, plugin.Config.model_fields)
        ]
        raise Invalid(f"wrong {plugin.kind}", "; ".join(faults)) from None
