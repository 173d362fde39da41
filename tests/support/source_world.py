"""Source supervisors for tests, and source plug-ins as another distribution would install them."""

import random
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from functory.engine.settings import Settings
from functory.triggers.sources.plugin import SourcePlugin
from functory.triggers.sources.supervisor import SourceSupervisor
from tests.support.waiting import wait_for
from tests.support.world import World

PATIENCE = 30.0


@contextmanager
def keeping(
    world: World, installed: Mapping[str, SourcePlugin] | None = None, **options: Any
) -> Iterator["Kept"]:
    """A source supervisor whose rounds the test starts; it is closed at the end."""
    kept = Kept(world, installed, **options)
    try:
        yield kept
    finally:
        kept.supervisor.close()


class Kept:
    """A source supervisor of a world; its leases follow the world's clock."""

    def __init__(self, world: World, installed: Mapping[str, SourcePlugin] | None, **options: Any) -> None:
        settings: Settings = options.pop("settings", world.settings)
        self.supervisor = SourceSupervisor(
            world.database,
            settings,
            plugins=installed,
            monotonic=world.clock.monotonic,
            rng=random.Random(1),
            **options,
        )

    def until(self, fact: Callable[[], Any], what: str) -> Any:
        """Run rounds until ``fact`` is true."""

        def look() -> Any:
            self.supervisor.run_once()
            return fact()

        return wait_for(look, what)

    def runs(self, *names: str) -> None:
        """Run rounds until exactly these sources run here."""
        self.until(
            lambda: self.supervisor.running == sorted(names), f"{self.supervisor.running} → {sorted(names)}"
        )


def plug_in(folder: Path, kind: str, source: str) -> Path:
    """Write a distribution into ``folder`` (for ``sys.path``) with one kind of source, the class ``Source`` in
    ``source``."""
    module = f"plugged_{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[functory.sources]\n{kind} = {module}:Source\n")
    return folder
