"""A watched folder for tests: a real source supervisor watches it and writes its events."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from functory.engine.database import schema
from functory.engine.database.clock import SystemClock
from functory.engine.errors import Unavailable
from functory.triggers.sources.files import FileSource
from functory.triggers.sources.supervisor import SourceSupervisor
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import World


class Watched:
    """A world with a running source supervisor and a folder to watch."""

    def __init__(self, world: World, folder: Path, installed: Mapping[str, Any] | None = None) -> None:
        self.world = world
        self.folder = folder
        self._installed = installed or {"file": FileSource()}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def save(self, name: str = "inbox", path: Path | None = None, **config: Any) -> None:
        """Save a watch of the folder (or of ``path``) that settles quickly."""
        given = {"path": str(path or self.folder), "settle": 0.05} | config
        self.world.sources.save("file", name, given)

    def start(self) -> None:
        """Start the source supervisor."""
        self._ending.clear()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the supervisor softly."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(patient(20))

    def watches(self, name: str = "inbox") -> "Watched":
        """Wait until the watch has scanned the folder."""
        wait_for(lambda: (self.world.sources.get("file", name)["cursor"] or {}).get("look"), "the first scan")
        return self

    def reported(self) -> list[tuple[str, str]]:
        """The events so far, as (type, relative path) in their order."""
        return [(row["type"].removeprefix("file."), row["data"]["relative"]) for row in self.events()]

    def events(self) -> list[dict[str, Any]]:
        """The rows of the events of files so far, in their order."""
        return sorted(
            self.world.rows(schema.event, schema.event.c.type.like("file.%")), key=lambda row: row["id"]
        )

    def tells(self, *expected: tuple[str, str]) -> list[dict[str, Any]]:
        """Wait for exactly these events, in any order. Returns their rows."""
        wait_for(lambda: len(self.reported()) >= len(expected), f"{expected}")
        assert sorted(self.reported()) == sorted(expected)
        return self.events()

    def settled(self, name: str = "marker") -> None:
        """Write a marker file and wait for its event: then all earlier files have theirs."""
        (self.folder / name).write_text(name)
        wait_for(lambda: ("created", name) in self.reported(), "the marker")

    def problem(self, name: str = "inbox") -> str | None:
        """The current problem of the watch."""
        return self.world.sources.get("file", name)["problem"]

    def until(self, fact: Callable[[], Any], what: str) -> Any:
        """Wait for a fact."""
        return wait_for(fact, what)

    def _keep(self) -> None:
        supervisor = SourceSupervisor(self.world.database, self.world.settings, plugins=self._installed)
        try:
            while not self._ending.is_set():
                try:
                    supervisor.run_once()
                except Unavailable:
                    pass
                self._ending.wait(0.02)
        finally:
            supervisor.close()


@contextmanager
def watching(
    make_world: Callable[..., World], folder: Path, installed: Mapping[str, Any] | None = None
) -> Iterator[Watched]:
    """A folder to watch; the first ``start`` starts the supervisor."""
    folder.mkdir(exist_ok=True)
    watched = Watched(make_world(clock=SystemClock()), folder, installed)
    try:
        yield watched
    finally:
        watched.stop()
