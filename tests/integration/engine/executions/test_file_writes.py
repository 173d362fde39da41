"""Whose work a file is: what executions note when they end, and what a watch makes of it."""

import hashlib
import os
from datetime import timedelta
from pathlib import Path

import pytest

from functory.engine.executions import file_writes
from functory.engine.executions.file_writes import WRITE_RECORD_AGE, WRITE_TIME_TOLERANCE
from functory.engine.sources import file_watches
from functory.workers.execution.file_writes import collect
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

PATH = b"/data/in/a"


def noted(world: World, content: str = "hash", path: bytes = PATH) -> str:
    """An execution that has left this content."""
    row = world.start()
    world.finish(world.claim(row), file_writes=[(path, content)])
    return row["id"]


def cause(world: World, *contents: str, path: bytes = PATH, after: timedelta = timedelta(0)) -> str | None:
    with world.database.read() as tx:
        found = file_writes.find_causes(tx, {path: contents}, {path: tx.now + after})
    return found[path].execution_id if found else None


def test_content_in_its_place_is_the_work_of_the_execution_that_left_it(world):
    world.function()
    id_ = noted(world)
    assert cause(world, "hash") == id_
    assert cause(world, "1:2", "hash") == id_
    assert cause(world, "other") is None
    assert cause(world, "hash", path=b"/data/in/b") is None


def test_the_latest_execution_that_left_the_content_is_its_cause(world):
    world.function()
    noted(world)
    world.advance(1)
    latest = noted(world)
    assert cause(world, "hash") == latest


def test_the_same_content_much_later_is_somebody_elses(world):
    world.function()
    id_ = noted(world)
    assert cause(world, "hash", after=WRITE_TIME_TOLERANCE) == id_
    assert cause(world, "hash", after=WRITE_TIME_TOLERANCE + timedelta(seconds=1)) is None


def test_a_failed_attempt_and_one_that_is_given_up_leave_their_notes_too(world):
    world.function()
    row = world.start()
    world.finish(world.claim(row), "failed", file_writes=[(PATH, "half")], retryable=False)
    assert cause(world, "half") == row["id"]
    file_writes.record_writes_of_unfinished(world.database, row["id"], [(PATH, "more")])
    assert cause(world, "more") == row["id"]


def test_old_notes_go(world):
    world.function()
    noted(world, "old")
    world.advance(WRITE_RECORD_AGE.total_seconds() + 1)
    noted(world, "new")
    assert cause(world, "old", after=-WRITE_RECORD_AGE) is None
    assert cause(world, "new") is not None


def test_running_writers_are_known_by_their_grants(world):
    world.function("plain")
    world.functions.save("def writes(): ...\n", files={"write": ["/data/in"], "read": ["/data/other"]})
    world.claim(world.start("plain"))
    claim = world.claim(world.start("writes"))
    with world.database.read() as tx:
        (writer,) = file_writes.running_writers(tx)
    assert (writer.execution_id, writer.folders) == (claim.id, ("/data/in",))
    world.finish(claim)
    with world.database.read() as tx:
        assert file_writes.running_writers(tx) == []


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    granted, other = tmp_path / "granted", tmp_path / "other"
    granted.mkdir()
    other.mkdir()
    (granted / "a").write_text("a")
    (other / "b").write_text("b")
    return granted, other


def of(granted: Path, watched: Path, *paths: Path) -> list[str]:
    return [
        os.fsdecode(path)
        for path, _ in collect([os.fsencode(path) for path in paths], [str(granted)], [str(watched)])
    ]


def test_only_what_is_granted_and_watched_is_read(folders):
    granted, other = folders
    (granted / "link").symlink_to(other / "b")
    os.mkfifo(granted / "pipe")
    wrote = [granted / "a", granted / "gone", granted / "link", granted / "pipe", granted, other / "b"]
    assert of(granted, granted, *wrote) == [str(granted / "a")]
    assert of(granted, granted.parent, *wrote) == [str(granted / "a")]
    assert of(granted, other, *wrote) == []
    assert of(granted / "a", granted, *wrote) == [str(granted / "a")]
    assert of(granted, granted, granted / ".." / "other" / "b") == []


def test_written_files_are_known_by_their_content_at_their_real_path(folders):
    granted, _ = folders
    alias = granted.with_name("alias")
    alias.symlink_to(granted)
    found = collect([os.fsencode(alias / "a"), b"\x00", b"/" + b"x" * 5000], [str(alias)], [str(granted)])
    assert found == [(os.fsencode(granted / "a"), hashlib.sha256(b"a").hexdigest())]
    assert collect([os.fsencode(granted / "a")], [str(granted)], [str(granted)], budget=0)[0][1].startswith(
        "1:"
    )
    with (granted / "large").open("wb") as file:
        file.truncate(file_watches.HASH_BYTES + 1)
    ((_, content),) = collect([os.fsencode(granted / "large")], [str(granted)], [str(granted)])
    assert content == f"{file_watches.HASH_BYTES + 1}:{(granted / 'large').stat().st_mtime_ns}"
