"""Watches of files, run by a real supervisor over real folders: the events of changes there."""

import base64
import errno
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, InotifyFD

from functory.engine.database import schema
from functory.engine.errors import Invalid, NotFound
from functory.engine.sources import file_watches
from functory.triggers.sources.files import FileSource
from functory.triggers.sources.files.watcher import WatchLimits
from tests.support.watch_world import Watched, watching
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

MODES = {"inotify": "never", "polling": "always"}


class Small(FileSource):
    """A watch with room for very little."""

    sizes = WatchLimits(queue=5, waiting=40, batch=20)


@pytest.fixture
def inbox(make_world: Callable[..., World], tmp_path: Path) -> Iterator[Watched]:
    with watching(make_world, tmp_path / "inbox") as watched:
        yield watched


@pytest.fixture
def lite(migrated_file: Path, tmp_path: Path) -> Iterator[Watched]:
    """As ``inbox``, for what has nothing to do with the database: on SQLite alone."""
    shutil.copy(migrated_file, tmp_path / "functory.db")
    made: list[World] = []

    def make(**options: object) -> World:
        made.append(World(f"sqlite:///{tmp_path / 'functory.db'}", tmp_path / "home", **options))
        return made[-1]

    with watching(make, tmp_path / "inbox") as watched:
        yield watched
    for world in made:
        world.close()


def begin(watched: Watched, **config: object) -> Path:
    watched.save(**config)
    watched.start()
    watched.watches()
    return watched.folder


@pytest.mark.parametrize("mode", MODES)
def test_each_action_is_reported_as_what_it_is(inbox, tmp_path, mode):
    """The rows of the study's table, each in a folder of its own, all in one go."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("appended", "renamed", "target", "out", "touched", "same", "removed"):
        folder = inbox.folder / name
        folder.mkdir()
        (folder / "file").write_text(f"{name} at first")
    for name in ("tree", "leaving/deep"):
        (tmp_path / name).mkdir(parents=True)
    (inbox.folder / "leaving" / "deep").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "tree" / f"{number}").write_text(f"tree {number}")
        (inbox.folder / "leaving" / "deep" / f"{number}").write_text(f"leaving {number}")
    (outside / "moved in").write_text("from outside")
    at = begin(inbox, polling=MODES[mode], initial="ignore")
    assert inbox.reported() == []
    with (at / "created").open("w") as file:
        file.write("create, write, close")
    with (at / "appended" / "file").open("a") as file:
        for _ in range(50):
            file.write("more")
            file.flush()
    (at / "renamed" / "file").rename(at / "renamed" / "other")
    (at / "target" / ".new.tmp").write_text("another content")
    (at / "target" / ".new.tmp").rename(at / "target" / "file")
    (outside / "moved in").rename(at / "moved in")
    (at / "out" / "file").rename(outside / "moved out")
    (at / "x" / "y").mkdir(parents=True)
    (at / "x" / "y" / "at once").write_text("at once")
    (tmp_path / "tree").rename(at / "tree")
    (at / "leaving").rename(outside / "leaving")
    os.utime(at / "touched" / "file")
    (at / "touched" / "file").chmod(0o600)
    (at / "touched" / "file").read_text()
    (at / "same" / "file").write_text("same at first")
    (at / "removed" / "file").unlink()
    (at / "dangling").symlink_to("nowhere")
    (at / "loop").symlink_to(at / "touched")
    os.mkfifo(at / "pipe")
    rows = inbox.tells(
        ("created", "created"),
        ("modified", "appended/file"),
        ("moved", "renamed/other"),
        ("modified", "target/file"),
        ("created", "moved in"),
        ("deleted", "out/file"),
        ("created", "x/y/at once"),
        *(("created", f"tree/{number}") for number in range(5)),
        *(("deleted", f"leaving/deep/{number}") for number in range(5)),
        ("deleted", "removed/file"),
    )
    data = {(row["type"], row["data"]["relative"]): row["data"] for row in rows}
    moved = data["file.moved", "renamed/other"]
    assert moved["previous_path"] == str(at / "renamed" / "file")
    assert moved["previous_sha256"] == moved["sha256"] is not None
    modified = data["file.modified", "target/file"]
    assert modified["previous_sha256"] != modified["sha256"]
    inbox.settled()
    assert len(inbox.reported()) == len(rows) + 1, "no duplicate, and nothing without a change"


def test_an_event_says_which_file_and_what_is_in_it(inbox):
    at = begin(inbox)
    (at / "sub").mkdir()
    (at / "sub" / "order.csv").write_text("7 apples\n")
    (row,) = inbox.tells(("created", "sub/order.csv"))
    found = (at / "sub" / "order.csv").stat()
    assert row["type"] == "file.created"
    assert row["subject"] == str(at / "sub" / "order.csv")
    assert row["source"] == "/functory/file/inbox"
    assert row["data"] == {
        "watch": "inbox",
        "path": str(at / "sub" / "order.csv"),
        "relative": "sub/order.csv",
        "name": "order.csv",
        "size": 9,
        "mtime": row["data"]["mtime"],
        "mtime_ns": found.st_mtime_ns,
        "sha256": hashlib.sha256(b"7 apples\n").hexdigest(),
    }
    assert row["data"]["mtime"].endswith("Z")
    assert row["cause_execution_id"] is None


@pytest.mark.parametrize("mode", MODES)
def test_names_of_any_bytes_are_reported_exactly(lite, mode):
    at = begin(lite, polling=MODES[mode])
    names = ["żółw 🐢", "new\nline", "tab\tquote'\"", "-rf", "back\\xff", "\x1b[31mred", "x" * 255]
    for name in names:
        (at / name).write_text(name)
    os.close(os.open(os.fsencode(at) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    rows = lite.tells(*(("created", name) for name in names), ("created", "caf\\xe9"))
    (latin,) = [row for row in rows if row["data"]["relative"] == "caf\\xe9"]
    assert base64.b64decode(latin["data"]["path_bytes"]) == os.fsencode(at) + b"/caf\xe9"
    assert all("path_bytes" not in row["data"] for row in rows if row is not latin)
    Path(os.fsdecode(os.fsencode(at) + b"/caf\xe9")).unlink()
    lite.until(lambda: ("deleted", "caf\\xe9") in lite.reported(), "the deletion")


def test_only_what_is_asked_for_is_reported(lite):
    begin(lite, patterns=["*.csv", "deep/**"], ignore=["old*"], events=["created", "deleted"])
    at = lite.folder
    for name in ("a.csv", "a.txt", "old.csv"):
        (at / name).write_text("1")
    (at / "deep" / "er").mkdir(parents=True)
    (at / "deep" / "er" / "any").write_text("1")
    lite.tells(("created", "a.csv"), ("created", "deep/er/any"))
    (at / "a.csv").write_text("2")
    (at / "a.txt").rename(at / "b.csv")
    (at / "a.csv").rename(at / "a.bak")
    lite.tells(("created", "a.csv"), ("created", "deep/er/any"), ("created", "b.csv"), ("deleted", "a.csv"))


@pytest.mark.parametrize("mode", MODES)
def test_a_flat_watch_is_about_the_folder_alone(lite, mode):
    (lite.folder / "sub").mkdir()
    begin(lite, recursive=False, polling=MODES[mode])
    (lite.folder / "sub" / "below").write_text("1")
    (lite.folder / "here").write_text("1")
    lite.tells(("created", "here"))


@pytest.mark.parametrize("mode", MODES)
def test_one_file_is_watched_however_it_is_replaced(lite, mode):
    file = lite.folder / "config.toml"
    file.write_text("a = 1")
    (lite.folder / "other").write_text("1")
    begin(lite, path=file, polling=MODES[mode])
    (lite.folder / "new").write_text("a = 2")
    (lite.folder / "new").rename(file)
    (row,) = lite.tells(("modified", "config.toml"))
    assert row["data"]["path"] == row["subject"] == str(file)
    file.unlink()
    lite.tells(("modified", "config.toml"), ("deleted", "config.toml"))
    file.write_text("a = 3")
    (lite.folder / "other").write_text("2")
    lite.tells(("modified", "config.toml"), ("deleted", "config.toml"), ("created", "config.toml"))


def test_what_was_there_at_first_is_known_and_what_came_since_is_reported(inbox):
    (inbox.folder / "old").write_text("1")
    inbox.until(lambda: _later_than_files(inbox), "another time for the file system")
    inbox.save()
    (inbox.folder / "before the watcher runs").write_text("1")
    inbox.start()
    inbox.tells(("created", "before the watcher runs"))
    (inbox.folder / "old").write_text("2")
    inbox.tells(("created", "before the watcher runs"), ("modified", "old"))


def _later_than_files(inbox: Watched) -> bool:
    probe = inbox.folder.parent / "probe"
    probe.write_text("")
    return probe.stat().st_ctime_ns > (inbox.folder / "old").stat().st_ctime_ns + 20_000_000


def test_what_is_there_at_first_is_reported_where_that_is_wanted(lite):
    (lite.folder / "old").write_text("1")
    lite.save(initial="events")
    lite.start()
    lite.tells(("created", "old"))


def test_what_happens_while_no_watcher_runs_is_reported_afterwards(inbox):
    for name in ("kept", "changed", "removed", "renamed"):
        (inbox.folder / name).write_text(f"{name} at first")
    at = begin(inbox)
    inbox.stop()
    (at / "changed").write_text("other")
    (at / "removed").unlink()
    (at / "renamed").rename(at / "new name")
    (at / "came").write_text("1")
    (at / "came and went").write_text("1")
    (at / "came and went").unlink()
    inbox.start()
    inbox.tells(("modified", "changed"), ("deleted", "removed"), ("moved", "new name"), ("created", "came"))


def test_a_paused_watch_tells_afterwards_and_a_deleted_one_forgets(lite):
    at = begin(lite)
    lite.world.sources.pause("file", "inbox")
    (at / "meanwhile").write_text("1")
    lite.world.sources.resume("file", "inbox")
    lite.tells(("created", "meanwhile"))
    lite.world.sources.delete("file", "inbox")
    (at / "unseen").write_text("1")
    lite.save()
    lite.watches()
    (at / "seen").write_text("1")
    lite.until(lambda: ("created", "seen") in lite.reported(), "the new file")
    assert ("deleted", "meanwhile") not in lite.reported()


def test_another_configuration_loses_nothing_that_the_old_one_would_have_reported(lite):
    (lite.folder / "old.txt").write_text("1")
    (lite.folder / "old.csv").write_text("1")
    at = begin(lite, patterns=["*.csv"])
    lite.stop()
    (at / "new.csv").write_text("1")
    lite.save(patterns=["*.csv", "*.txt"])
    lite.start()
    lite.tells(("created", "new.csv"))
    (at / "old.txt").write_text("2")
    lite.tells(("created", "new.csv"), ("modified", "old.txt"))


def test_a_root_that_is_deleted_is_a_problem_and_its_files_are_compared_when_it_is_back(inbox):
    for name in ("same", "changed", "lost"):
        (inbox.folder / name).write_text(f"{name} at first")
    at = begin(inbox)
    at.rename(at.with_name("elsewhere"))
    inbox.until(lambda: "no file is reported as deleted" in (inbox.problem() or ""), "the problem")
    assert inbox.reported() == []
    at.mkdir()
    (at / "same").write_text("same at first")
    (at / "changed").write_text("other")
    (at / "new").write_text("1")
    inbox.until(lambda: ("created", "new") in inbox.reported(), "the new file")
    inbox.until(lambda: inbox.problem() is None, "the end of the problem")
    inbox.until(lambda: ("deleted", "lost") in inbox.reported(), "what is missing, now that it can be known")
    assert sorted(set(inbox.reported())) == [("created", "new"), ("deleted", "lost"), ("modified", "changed")]


def test_a_root_that_is_not_there_yet_is_watched_once_it_is(lite):
    later = lite.folder / "later"
    lite.save(path=later, must_exist=False)
    lite.start()
    lite.until(lambda: lite.problem(), "the problem")
    later.mkdir()
    lite.watches()
    (later / "a").write_text("1")
    lite.tells(("created", "a"))
    assert lite.problem() is None


def test_a_file_that_cannot_be_read_is_reported_with_its_problem(lite, monkeypatch):
    """As root nothing is unreadable: the refusal is the operating system's by another way."""
    opened = os.open

    def refuse(path: object, *args: object, **options: object) -> int:
        if isinstance(path, bytes) and path.endswith(b"/locked"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    at = begin(lite)
    (at / "locked").write_text("1")
    (row,) = lite.tells(("created", "locked"))
    assert (row["data"]["sha256"], row["data"]["problem"]) == (None, "Permission denied")
    monkeypatch.undo()
    (at / "locked").chmod(0o600)
    file_watches.rescan(lite.world.database, "inbox")
    rows = lite.tells(("created", "locked"), ("modified", "locked"))
    assert rows[-1]["data"]["sha256"] is not None
    assert "problem" not in rows[-1]["data"]


def test_a_large_file_is_known_by_size_and_time(lite):
    at = begin(lite, max_hash_bytes=10)
    (at / "large").write_text("x" * 11)
    (at / "small").write_text("x" * 10)
    rows = lite.tells(("created", "large"), ("created", "small"))
    assert {row["data"]["name"]: row["data"]["sha256"] is None for row in rows} == {
        "large": True,
        "small": False,
    }


def test_links_lead_out_of_the_folder_only_where_that_is_wanted(lite, tmp_path):
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "secret").write_text("1")
    (lite.folder / "link").symlink_to(outside)
    (lite.folder / "round").symlink_to(lite.folder)
    lite.save(initial="events")
    lite.save("following", initial="events", follow_symlinks=True)
    lite.start()
    (row,) = lite.tells(("created", "link/deep/secret"))
    assert row["data"]["watch"] == "following"
    assert row["data"]["path"] == str(lite.folder / "link" / "deep" / "secret")


def test_a_full_queue_and_a_small_waiting_room_lose_nothing(make_world, tmp_path):
    with watching(make_world, tmp_path / "inbox", {"file": Small()}) as inbox:
        at = begin(inbox)
        names = [f"{number:03}" for number in range(300)]
        for name in names:
            (at / name).write_text(name)
        inbox.tells(*(("created", name) for name in names))
        for name in names[:100]:
            (at / name).unlink()
        inbox.until(lambda: len(inbox.reported()) >= 400, "the deletions")
        assert sorted(inbox.reported()[300:]) == [("deleted", name) for name in names[:100]]


def test_the_kernels_queue_may_overflow(lite, monkeypatch):
    """As when 16,384 events wait: what comes then is not reported, but that something was lost is."""
    read = InotifyFD.read_events
    overflow = InotifyEvent(-1, InotifyConstants.IN_Q_OVERFLOW, 0, b"")
    monkeypatch.setattr(InotifyFD, "read_events", lambda self: [overflow] if read(self) else [])
    at = begin(lite)
    (at / "unnoticed").write_text("1")
    lite.tells(("created", "unnoticed"))


@pytest.mark.parametrize("where", ["root", "below"])
def test_when_the_kernel_takes_no_more_watches_the_folder_is_polled_and_that_is_reported(
    lite, monkeypatch, where
):
    add = InotifyFD._get_or_create_watch

    def full(self: InotifyFD, path: bytes, mask: object) -> object:
        if where == "root" or path.endswith(b"/sub"):
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return add(self, path, mask)

    monkeypatch.setattr(InotifyFD, "_get_or_create_watch", full)
    (lite.folder / "sub").mkdir()
    at = begin(lite, polling="auto")
    (at / "sub" / "a").write_text("1")
    lite.tells(("created", "sub/a"))
    lite.until(lambda: "inotify watch limit reached" in (lite.problem() or ""), "the problem")
    assert "max_user_watches" in lite.problem()


def test_a_storm_of_renames_ends_with_what_is_there(inbox):
    names = [f"{number:02}" for number in range(40)]
    for name in names:
        (inbox.folder / name).write_text(name)
    at = begin(inbox)
    for step in range(8):
        for name in names:
            (at / (name if step == 0 else f"{name}.{step}")).rename(at / f"{name}.{step + 1}")
    inbox.until(
        lambda: {path for _, path in inbox.reported()} >= {f"{name}.8" for name in names}, "the last names"
    )
    inbox.settled()
    known = {row["path"] for row in _shown(inbox)} - {"marker"}
    assert known == {f"{name}.8" for name in names}
    state = set(names)
    for row in inbox.events():
        data = row["data"]
        if row["type"] == "file.moved":
            state.remove(Path(data["previous_path"]).name)
        (state.discard if row["type"] == "file.deleted" else state.add)(data["relative"])
    assert state == known | {"marker"}


def test_the_database_of_the_engine_is_no_file_of_a_watch(lite, tmp_path):
    lite.save(path=tmp_path, patterns=["functory.db*", "seen"])
    lite.start()
    lite.watches()
    (tmp_path / "seen").write_text("1")
    lite.tells(("created", "seen"))
    assert {row["path"] for row in _shown(lite)} == {"seen"}


def test_a_rescan_finds_a_change_that_times_do_not_show(inbox):
    at = begin(inbox)
    (at / "a").write_text("1")
    inbox.tells(("created", "a"))
    with inbox.world.database.write() as tx:
        # As if it had changed within one tick of the file system's clock.
        (row,) = tx.rows(sa.select(schema.file_seen))
        tx.execute(sa.update(schema.file_seen).values(sha256="0" * 64))
    file_watches.rescan(inbox.world.database, "inbox", content=True)
    inbox.tells(("created", "a"), ("modified", "a"))
    assert row["sha256"] == inbox.events()[-1]["data"]["sha256"]
    with pytest.raises(NotFound, match="functory watch list"):
        file_watches.rescan(inbox.world.database, "other")


def _shown(watched: Watched) -> list[dict]:
    return file_watches.list_files(watched.world.database, "inbox")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"path": "relative"}, "not absolute"),
        ({"path": "/"}, "not for watching"),
        ({"path": "/proc/self"}, "not for watching"),
        ({"path": "/tmp/../etc"}, "goes up"),
        ({"path": "/no/such/folder"}, "no such folder or file"),
        ({"path": "/dev/null"}, "not for watching"),
        ({"path": "/tmp/\x00"}, "control characters"),
        ({"path": "/tmp/\udcff"}, "surrogates"),
        ({"path": "/" + "x" * 5000}, "4096"),
        ({"path": 5}, "path"),
        ({}, "path"),
        ({"path": "/tmp", "patterns": []}, "the list is empty"),
        ({"path": "/tmp", "patterns": ["../x"]}, "goes up"),
        ({"path": "/tmp", "patterns": ["/"]}, "no pattern"),
        ({"path": "/tmp", "patterns": ["*"] * 201}, "200"),
        ({"path": "/tmp", "patterns": "*"}, "patterns"),
        ({"path": "/tmp", "ignore": ["x\x00"]}, "no pattern"),
        ({"path": "/tmp", "events": ["renamed"]}, "created"),
        ({"path": "/tmp", "events": []}, "the list is empty"),
        ({"path": "/tmp", "settle": "soon"}, "settle"),
        ({"path": "/tmp", "settle": -1}, "settle"),
        ({"path": "/tmp", "settle": "2h"}, "settle"),
        ({"path": "/tmp", "polling": "sometimes"}, "polling"),
        ({"path": "/tmp", "max_hash_bytes": -1}, "max_hash_bytes"),
        ({"path": "/tmp", "max_hash_bytes": True}, "max_hash_bytes"),
        ({"path": "/tmp", "colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_a_configuration_that_cannot_work_is_refused_with_the_reason(lite, config, says):
    with pytest.raises(Invalid) as refused:
        lite.world.sources.save("file", "inbox", config)
    assert says in str(refused.value)


def test_a_socket_and_a_dangling_link_cannot_be_watched(lite):
    os.mkfifo(lite.folder / "pipe")
    (lite.folder / "link").symlink_to("nowhere")
    for name, says in (("pipe", "pipe or socket"), ("link", "leads nowhere")):
        with pytest.raises(Invalid, match=says):
            lite.save(path=lite.folder / name)


def test_a_tree_that_is_copied_and_removed_is_reported_file_by_file(lite, tmp_path):
    source = tmp_path / "source"
    for number in range(200):
        (source / f"{number % 20}").mkdir(parents=True, exist_ok=True)
        (source / f"{number % 20}" / f"{number}").write_text(f"{number}")
    at = begin(lite)
    subprocess.run(["cp", "-r", source, at / "copy"], check=True)
    expected = [f"copy/{number % 20}/{number}" for number in range(200)]
    lite.tells(*(("created", path) for path in expected))
    shutil.rmtree(at / "copy")
    lite.until(lambda: len(lite.reported()) >= 400, "the deletions")
    assert sorted(lite.reported()[200:]) == sorted(("deleted", path) for path in expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("half", "reported"),
    [
        (".big.csv.Ab12Cd", []),
        ("big.csv.half", [("created", "big.csv.half"), ("deleted", "big.csv.half")]),
        ("upload 7", [("created", "upload 7"), ("deleted", "upload 7")]),
    ],
)
def test_a_file_that_gets_its_name_when_it_is_whole_is_created_then(lite, mode, half, reported):
    # As long as the file is open, nothing of it is reported: the rest and the new name arrive together.
    at = begin(lite, polling=MODES[mode], wait_for_close=True)
    (at / half).write_text("half")
    lite.settled()
    lite.until(lambda: set(reported[:1]) <= set(lite.reported()), "the half file, where it is reported")
    with (at / half).open("a") as file:
        file.write(" and the rest")
        file.flush()
        (at / half).rename(at / "big.csv")
    whole = hashlib.sha256(b"half and the rest").hexdigest()
    events = lite.tells(("created", "marker"), ("created", "big.csv"), *reported)
    assert [row["data"]["sha256"] for row in events if row["subject"] == str(at / "big.csv")] == [whole]


@pytest.mark.parametrize("mode", MODES)
def test_a_file_whose_writer_pauses_is_reported_when_it_is_closed(lite, mode):
    at = begin(lite, polling=MODES[mode], wait_for_close=True)
    with (at / "slow").open("w") as file:
        lite.settled("before the first byte")
        file.write("half")
        file.flush()
        lite.settled("after the first half")
        file.write(" and the rest")
    whole = hashlib.sha256(b"half and the rest").hexdigest()
    markers = [("created", "before the first byte"), ("created", "after the first half")]
    events = lite.tells(*markers, ("created", "slow"))
    assert {row["data"]["relative"]: row["data"]["sha256"] for row in events}["slow"] == whole


def test_a_watch_that_cannot_know_whether_a_file_is_open_says_so(lite, monkeypatch):
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fcntl.fcntl", refuse)
    begin(lite, wait_for_close=True)
    lite.settled("of another user")
    lite.until(lambda: "whether" in (lite.problem() or ""), "the problem")
    assert f"{lite.folder}/of another user is still open" in str(lite.problem())
