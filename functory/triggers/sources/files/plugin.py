"""The source plug-in ``file``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError, Invalid
from functory.engine.sources import file_watches
from functory.triggers.sources import plugin
from functory.triggers.sources.files import glob_patterns
from functory.triggers.sources.files.change_detection import TYPES
from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.watcher import FileWatcher, WatchLimits


class FileSource(plugin.SourcePlugin):
    """Watches files and folders."""

    kind: ClassVar[str] = file_watches.KIND
    summary: ClassVar[str] = "files that are created, modified, moved and deleted below a folder"
    types: ClassVar[tuple[str, ...]] = tuple(f"file.{type_}" for type_ in TYPES)
    Config: ClassVar[type[plugin.SourceConfig]] = FileWatchConfig
    runs: ClassVar[bool] = True
    limits: ClassVar[WatchLimits] = WatchLimits()

    def check(self, config: FileWatchConfig) -> None:
        """Refuse a path that is neither a folder nor a file, a missing one if ``must_exist``, and patterns that mean
        something in other programs only.
        """
        for pattern in (*config.patterns, *config.ignore):
            glob_patterns.check(pattern)
        path = config.path
        try:
            there = os.path.isdir(path) or os.path.isfile(path)
            if not there and os.path.lexists(path):
                broken = os.path.islink(path) and not os.path.exists(path)
                why = (
                    "the path is a symbolic link that leads nowhere"
                    if broken
                    else "the path is a device, pipe or socket"
                )
                raise Invalid(f"{path} cannot be watched", why, "name a folder or a file")
        except OSError as error:
            raise Invalid(f"{path} cannot be watched", error.strerror or str(error)) from None
        if config.must_exist and not there:
            raise Invalid(
                f"{path} cannot be watched",
                "there is no such folder or file on this machine",
                f"mkdir -p {path}, or --missing (must_exist = false) when it comes later or is elsewhere",
            )

    def on_disabled(self, tx: Tx, row: Mapping[str, Any], config: FileWatchConfig | None) -> None:
        """Delete the known files of a deleted watch; a paused one keeps them."""
        if row["state"] == "deleted":
            file_watches.delete_known(tx, row["id"])

    def run(self, context: plugin.SourceContext) -> None:
        """Watch until ``context.stop_event`` is set."""
        try:
            FileWatcher(context, context.config, limits=self.limits).run()
        except FunctoryError:
            raise
        except OSError as error:
            raise Invalid(f"{context.config.path} cannot be watched", error.strerror or str(error)) from error
