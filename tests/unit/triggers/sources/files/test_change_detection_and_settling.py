"""What a watch decides: which files it is about, when one is at rest, what has changed, when to look."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.sources.file_watches import KnownFile
from functory.triggers.sources.files.change_detection import detect_changes, select_changes
from functory.triggers.sources.files.file_facts import FileFacts
from functory.triggers.sources.files.glob_patterns import GlobFilter
from functory.triggers.sources.files.rescan_schedule import RescanSchedule
from functory.triggers.sources.files.temporary_names import DEFAULT_IGNORE
from functory.triggers.sources.files.watch_root import polled_file_system
from functory.triggers.sources.files.write_settling import WriteSettling


def seen(path: str, content: str | None = "x", **changed) -> KnownFile:
    fields = {"size": 1, "mtime_ns": 1000, "ctime_ns": 1000, "inode": f"1:{path}", "sha256": content}
    return KnownFile(path.encode(), **{**fields, **changed})


def verdict(now: dict[str, KnownFile | None], known: list[KnownFile], **options):
    found = {path.encode(): one for path, one in now.items()}
    return detect_changes(found, {one.path: one for one in known}, **options)


def changes(now: dict[str, KnownFile | None], known: list[KnownFile], **options) -> list[tuple[str, str]]:
    return [(one.type, one.file.path.decode()) for one in verdict(now, known, **options).changes]


# Patterns


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*", "a", True),
        ("*", "deep/in/a", True),
        ("*.csv", "deep/in/a.csv", True),
        ("*.csv", "a.CSV", False),
        ("*.csv", "a.csv.gz", False),
        ("*.csv", "a\nb.csv", True),
        ("in/*.csv", "in/a.csv", True),
        ("in/*.csv", "in/deep/a.csv", False),
        ("in/*.csv", "other/in/a.csv", False),
        ("/a.csv", "a.csv", True),
        ("/a.csv", "in/a.csv", False),
        ("in/**/a", "in/a", True),
        ("in/**/a", "in/x/y/a", True),
        ("**/a", "a", True),
        ("**", "x/y", True),
        (".git/**", ".git/config", True),
        (".git/**", "sub/.git/config", False),
        ("[ab]?", "a1", True),
        ("[!ab]?", "a1", False),
        ("*", ".hidden", True),
        ("*.\udcff", "name.\udcff", True),
    ],
)
def test_a_pattern_is_about_names_or_with_a_slash_about_paths(pattern, path, matches):
    assert GlobFilter([pattern], []).includes(path) is matches


@pytest.mark.parametrize(
    ("folder", "skipped"), [(".git", True), ("sub/.git", True), (".git/objects", True), ("src", False)]
)
def test_a_folder_whose_whole_content_is_ignored_is_not_walked(folder, skipped):
    assert GlobFilter(["*"], DEFAULT_IGNORE).excludes_folder(folder) is skipped


def test_a_pattern_of_many_stars_is_answered_at_once():
    assert not GlobFilter(["*a" * 200 + "b"], []).includes("a" * 250)
    assert not GlobFilter(["**/" * 100 + "b"], []).includes("/".join("a" * 250))


# Rest


class Disk:
    """Files of a test: path to facts; the Settling looks here."""

    def __init__(self) -> None:
        self.files: dict[bytes, FileFacts | OSError] = {}

    def write(self, path: bytes, version: int, inode: str = "1:1") -> None:
        self.files[path] = FileFacts(version, version, version, inode)

    def look(self, path: bytes) -> FileFacts | None:
        found = self.files.get(path)
        if isinstance(found, OSError):
            raise found
        return found


@pytest.fixture
def disk() -> Disk:
    return Disk()


def test_fifty_appends_are_one_path_that_rests_once_nothing_happens_any_more(disk):
    settling = WriteSettling(0.3, 100, disk.look)
    for step in range(50):
        disk.write(b"a", step)
        settling.notify(b"a", step * 0.1)
        assert settling.take_settled(step * 0.1, 10) == {}
    assert settling.take_settled(4.9 + 0.29, 10) == {}
    rested: dict = {}
    for step in range(8):
        rested |= settling.take_settled(4.9 + 0.31 * (step + 1), 10)
    assert list(rested) == [b"a"]
    assert len(settling) == 0


def test_a_file_that_grows_without_notices_does_not_rest(disk):
    settling = WriteSettling(0.3, 100, disk.look)
    settling.notify(b"a", 0.0)
    for step in range(1, 20):
        disk.write(b"a", step)
        assert settling.take_settled(step * 0.3 + 0.01, 10) == {}
    assert list(settling.take_settled(30.0, 10)) == [b"a"]


def test_there_is_room_for_the_given_number_of_paths_and_no_more(disk):
    settling = WriteSettling(0.3, 3, disk.look)
    assert [settling.notify(b"%d" % n, 0.0) for n in range(5)] == [True, True, True, False, False]
    assert settling.notify(b"0", 0.1), "one that waits already needs no room"
    assert settling.room == 0
    assert len(settling.take_settled(1.0, 2)) == 2
    assert settling.room == 2


def test_the_longest_waiting_rest_first_and_no_more_at_once_than_asked_for(disk):
    settling = WriteSettling(0.3, 100, disk.look)
    for number in range(10):
        settling.notify(b"%d" % number, number * 0.01)
    taken = [list(settling.take_settled(5.0, 4)) for _ in range(3)]
    assert list(itertools.chain(*taken)) == [b"%d" % number for number in range(10)]


def test_a_path_that_cannot_be_looked_at_is_neither_there_nor_gone(disk):
    settling = WriteSettling(0.3, 100, disk.look)
    disk.files[b"a"] = PermissionError(13, "no")
    settling.notify(b"a", 0.0)
    assert settling.take_settled(1.0, 10) == {}
    assert len(settling) == 0


def test_a_file_moved_twice_comes_from_its_first_place(disk):
    settling = WriteSettling(0.1, 100, disk.look)
    disk.write(b"c", 1)
    settling.notify(b"b", 0.0, b"a")
    settling.notify(b"a", 0.0)
    settling.notify(b"c", 0.0, b"b")
    assert settling.take_settled(1.0, 10)[b"c"].moved_from == b"a"


def test_a_file_moved_there_and_back_was_not_moved(disk):
    settling = WriteSettling(0.1, 100, disk.look)
    settling.notify(b"b", 0.0, b"a")
    settling.notify(b"a", 0.0, b"b")
    assert settling.take_settled(1.0, 10)[b"a"].moved_from is None


def test_the_inodes_that_are_waited_for_are_those_of_the_waiting_files(disk):
    settling = WriteSettling(0.1, 100, disk.look)
    disk.write(b"a", 1, "1:5")
    disk.write(b"b", 1, "1:5")
    settling.notify(b"a", 0.0)
    settling.notify(b"b", 0.5)
    assert set(settling.inodes) == {"1:5"}
    settling.take_settled(0.2, 10)
    assert set(settling.inodes) == {"1:5"}
    settling.take_settled(0.7, 10)
    assert set(settling.inodes) == set()


# What has changed


def test_a_new_file_is_created_and_one_that_is_gone_deleted():
    assert changes({"a": seen("a")}, []) == [("created", "a")]
    assert changes({"a": None}, [seen("a")]) == [("deleted", "a")]
    assert changes({"a": None}, []) == []


@pytest.mark.parametrize(
    ("before", "now", "reported"),
    [
        (seen("a"), seen("a", mtime_ns=2000, ctime_ns=2000), []),  # touched
        (seen("a"), seen("a", inode="1:9", mtime_ns=2000), []),  # written anew with the same bytes
        (seen("a"), seen("a", "y"), ["modified"]),
        (seen("a", None), seen("a", None), []),  # too large to be read
        (seen("a", None), seen("a", None, mtime_ns=2000), ["modified"]),
        (seen("a", None), seen("a", None, size=2), ["modified"]),
        (seen("a", None), seen("a", "x"), []),  # small enough now, or the limit was raised
        (seen("a"), seen("a", None, problem="no"), []),  # cannot be read at present
        (seen("a", None, problem="no"), seen("a", "x"), ["modified"]),  # can be read at last
        (seen("a", None, problem="no"), seen("a", None, problem="no"), []),
    ],
)
def test_a_file_is_modified_when_its_content_is_another(before, now, reported):
    assert [type_ for type_, _ in changes({"a": now}, [before])] == reported


def test_what_cannot_be_read_keeps_the_content_that_is_known():
    (kept,) = verdict({"a": seen("a", None, problem="no", ctime_ns=5)}, [seen("a")]).known
    assert (kept.sha256, kept.problem) == ("x", "no")


def test_an_unchanged_file_is_not_written_down_again():
    assert verdict({"a": seen("a")}, [seen("a")]).known == []


def test_a_file_with_inode_content_and_time_of_one_that_is_gone_was_moved():
    now = {"b": seen("b", inode="1:a"), "a": None}
    assert changes(now, [seen("a")]) == [("moved", "b")]
    assert changes({"b": seen("b", inode="1:a")}, [], missing=[seen("a")]) == [("moved", "b")]
    assert verdict(now, [seen("a")]).removed == [b"a"]


def test_an_inode_that_was_used_again_is_no_move():
    now = {"b": seen("b", inode="1:a", mtime_ns=2000), "a": None}
    assert changes(now, [seen("a")]) == [("created", "b"), ("deleted", "a")]


def test_a_file_that_was_changed_and_moved_is_created_under_its_new_name():
    now = {"b": seen("b", "y", inode="1:a", mtime_ns=2000), "a": None}
    assert changes(now, [seen("a")], moved_from={b"b": b"a"}) == [("created", "b"), ("deleted", "a")]


@pytest.mark.parametrize("half", [".b.csv.Xy", "b.csv.half", "uploading b.csv", "in/b.csv~1"])
def test_a_file_that_loses_what_is_around_its_name_is_created(half):
    now = {"b.csv": seen("b.csv", inode=f"1:{half}"), half: None}
    assert changes(now, [seen(half)]) == [("created", "b.csv"), ("deleted", half)]


@pytest.mark.parametrize("old", ["in/b.csv", "b.csv/x", "b", "B.csv.half"])
def test_another_name_or_another_folder_is_a_move(old):
    assert changes({"b.csv": seen("b.csv", inode=f"1:{old}"), old: None}, [seen(old)]) == [("moved", "b.csv")]


def test_a_rename_over_another_file_modifies_that_one():
    now = {"b": seen("b", "new", inode="1:a"), "a": None}
    assert changes(now, [seen("a", "new"), seen("b")]) == [("modified", "b"), ("deleted", "a")]
    assert changes({"b": seen("b", "new", inode="1:t"), "t": None}, [seen("b")]) == [("modified", "b")]


def test_one_file_that_is_gone_has_become_one_other_at_most():
    now = {"b": seen("b", inode="1:a"), "c": seen("c", inode="1:a"), "a": None}
    assert changes(now, [seen("a")]) == [("moved", "b"), ("created", "c")]


def test_files_that_changed_places_are_both_modified():
    now = {"a": seen("a", "y", inode="1:b"), "b": seen("b", "x", inode="1:a")}
    assert changes(now, [seen("a", "x"), seen("b", "y")]) == [("modified", "a"), ("modified", "b")]


def test_a_file_on_its_way_is_not_reported_as_deleted():
    waiting = verdict({"a": None}, [seen("a")], expected={"1:a"})
    assert (waiting.changes, waiting.recheck, waiting.removed) == ([], [b"a"], [])


def test_who_does_not_want_moves_hears_of_a_deletion_and_a_creation():
    reported = verdict({"b": seen("b", inode="1:a"), "a": None}, [seen("a")]).changes
    assert [(one.type, one.file.path) for one in select_changes(reported, ("created", "deleted"))] == [
        ("deleted", b"a"),
        ("created", b"b"),
    ]
    assert [one.type for one in select_changes(reported, ("created",))] == ["created"]
    assert select_changes(reported, ("modified",)) == []


_PATHS = ("a", "b", "c", "d")
_STATES = st.dictionaries(
    st.sampled_from(_PATHS),
    st.tuples(st.sampled_from("xy"), st.integers(1, 3), st.integers(1, 4)),
)


@given(_STATES, _STATES)
def test_the_reported_changes_lead_from_the_old_state_to_the_new(before, after):
    """Replaying the events over what was known gives what is there, whatever happened in between."""

    def at(path: str, state: dict) -> KnownFile:
        content, time, inode = state[path]
        return seen(path, content, mtime_ns=time, inode=f"1:{inode}")

    known = [at(path, before) for path in before]
    found = verdict({path: at(path, after) if path in after else None for path in _PATHS}, known)
    model = {one.path: one.sha256 for one in known}
    for change in found.changes:
        if change.type == "deleted":
            del model[change.file.path]
        elif change.type == "moved":
            assert change.file.path not in model
            model[change.file.path] = model.pop(change.before.path)
        elif change.type == "created":
            assert change.file.path not in model
            model[change.file.path] = change.file.sha256
        else:
            assert model[change.file.path] != change.file.sha256
            model[change.file.path] = change.file.sha256
    assert model == {path.encode(): after[path][0] for path in after}
    stored = {one.path: one for one in known if one.path not in found.removed}
    stored |= {one.path: one for one in found.known}
    assert stored == {path.encode(): at(path, after) for path in after}


# When to look


def test_scans_come_in_intervals_and_leave_pauses():
    plan = RescanSchedule(60.0, 0.0)
    assert (plan.due, plan.begin()) == (0.0, "start")
    plan.finish(0.0, 1.0)
    assert (plan.due, plan.reason) == (61.0, "interval")
    plan.request("folder", 2.0)
    assert (plan.due, plan.reason) == (6.0, "folder")
    plan.request("overflow", 3.0)
    assert (plan.due, plan.begin()) == (3.0, "overflow")
    plan.finish(3.0, 103.0)
    assert plan.due == 603.0, "a scan that takes long is not followed by the next"


@pytest.mark.parametrize(("reason", "due"), [("overflow", 5.0), ("folder", 60.0)])
def test_what_is_asked_for_during_a_scan_is_another_scan(reason, due):
    plan = RescanSchedule(60.0, 0.0)
    plan.begin()
    plan.request(reason, 5.0)
    plan.finish(0.0, 10.0)
    assert (plan.due, plan.reason) == (due, reason)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("/dev/sda / ext4 rw 0 0\n", None),
        ("/dev/sda / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\n", "nfs4"),
        ("/dev/sda / ext4 rw 0 0\n//host/x /data cifs rw 0 0\n", "cifs"),
        ("overlay / overlay rw 0 0\n", "overlay"),
        ("overlay / overlay rw 0 0\n/dev/sda /data ext4 rw 0 0\n", None),
        ("/dev/sda / ext4 rw 0 0\nme@host:/ /data fuse.sshfs rw 0 0\n", "fuse.sshfs"),
        ("/dev/sda / ext4 rw 0 0\nhost:/x /dat nfs4 rw 0 0\n", None),
        ("host:/x /data nfs4 rw 0 0\n/dev/sda /data ext4 rw 0 0\n", None),
        ("host:/x /data/in\\040box nfs4 rw 0 0\n", "nfs4"),
        ("nonsense\n\n", None),
    ],
)
def test_a_file_system_that_others_write_to_is_polled(tmp_path, table, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(table)
    assert polled_file_system("/data/in box/deep", mounts) == kind


def test_without_a_table_of_mounts_nothing_is_polled(tmp_path):
    assert polled_file_system("/data", tmp_path / "none") is None
