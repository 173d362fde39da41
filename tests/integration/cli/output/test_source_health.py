"""What status and doctor say about the sources of events."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from functory.cli.output import source_health
from functory.client.functory import Functory

pytest_plugins = ["tests.support.world"]


def limits(folder: Path, watches: int = 500_000, instances: int = 1024) -> Path:
    """The kernel's limits, as files."""
    folder.mkdir(exist_ok=True)
    (folder / "max_user_watches").write_text(f"{watches}\n")
    (folder / "max_user_instances").write_text(f"{instances}\n")
    return folder


@pytest.fixture
def said(engine: Functory, tmp_path: Path) -> Any:
    """What is wrong with the sources of the engine: what → advice."""

    def ask(embedded: bool = True, **kernel: int) -> dict[str, str]:
        _, found = source_health.find_problems(
            engine.database, embedded=embedded, inotify=limits(tmp_path / "inotify", **kernel)
        )
        return dict(found)

    return ask


def test_without_sources_nothing_is_wrong(said: Any) -> None:
    assert said(watches=1) == {}


def test_a_folder_that_is_gone_is_reported(engine: Functory, said: Any, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    engine.sources.save("file", "in", {"path": str(inbox)})
    assert said() == {}
    shutil.rmtree(inbox)
    assert said() == {f"file in: {inbox} is not on this machine": "functory watch show in"}
    engine.sources.pause("file", "in")
    assert said() == {}


def test_low_limits_of_the_kernel_are_reported_where_folders_are_watched(
    engine: Functory, said: Any, tmp_path: Path
) -> None:
    engine.sources.save("file", "in", {"path": str(tmp_path)})
    [what] = said(watches=100)
    assert "fs.inotify.max_user_watches is 100" in what
    assert said(watches=100)[what] == "sysctl -w fs.inotify.max_user_watches=131072"


def test_what_listens_needs_a_watcher_on_servers(engine: Functory, said: Any, tmp_path: Path) -> None:
    engine.sources.save("file", "in", {"path": str(tmp_path)})
    assert said(embedded=False) == {"file in: no watcher runs it": "functory watcher"}


def test_a_schedule_that_is_over_is_reported(engine: Functory, said: Any) -> None:
    engine.schedules.save("often", every="1h")
    assert said() == {}
    engine.schedules.save("once", every="1s", end="2400-01-01T00:00:00Z")
    assert said() == {}
    with engine.database.write() as tx:
        from functory.engine.database.schema import schedule

        tx.execute(schedule.update().values(next_at=None))
    assert set(said().values()) == {"functory schedule delete often", "functory schedule delete once"}


def test_a_kind_whose_plug_in_is_gone_is_reported(engine: Functory, said: Any) -> None:
    engine.sources.store.save("carrier-pigeon", "p", {})
    [(what, advice)] = said().items()
    assert "carrier-pigeon" in what
    assert "functory source delete carrier-pigeon p" in advice


def test_the_summary_counts_states_and_names_problems(engine: Functory, tmp_path: Path) -> None:
    engine.sources.save("file", "one", {"path": str(tmp_path)})
    engine.sources.save("file", "two", {"path": str(tmp_path)})
    engine.sources.pause("file", "two")
    [held] = engine.sources.store.claim(["file"], "here", 30.0)
    engine.sources.store.set_problem(held, "it is raining")
    found = engine.inspections.status()["sources"]
    assert (found["enabled"], found["paused"]) == (1, 1)
    assert [(row["name"], row["problem"]) for row in found["problems"]] == [("one", "it is raining")]
