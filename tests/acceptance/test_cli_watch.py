"""``functory watch``: a folder is watched, looked at, paused and let go of from the command line."""

from pathlib import Path

from tests.support.cli_shell import Shell


def test_a_watch_is_saved_once_shown_paused_and_deleted(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "in").mkdir()
    add = ("watch", "add", "inbox", "in", "--pattern", "*.csv", "--event", "created", "--settle", "2s")
    assert f"saved watch inbox v1\n{tmp_path / 'in'}" in shell.out(*add)
    assert "watch inbox v1 is unchanged" in shell.out(*add)
    changed = shell.json(*add, "--ignore", "old*", "--flat")
    assert (changed["version"], changed["created"]) == (2, True)
    assert changed["config"]["settle"] == 2.0
    assert changed["config"]["recursive"] is False
    assert {"old*", "*~"} <= set(changed["config"]["ignore"])
    assert shell.out("watch", "list", "-q") == "inbox"
    assert shell.json("watch", "show", "inbox")["files"] == 0
    assert shell.json("watch", "files", "inbox") == []
    shell.run("watch", "pause", "inbox", "--note", "files are moved")
    (row,) = shell.json("watch", "list")
    assert (row["state"], row["note"]) == ("paused", "files are moved")
    shell.run("watch", "resume", "inbox")
    shell.run("watch", "rescan", "inbox", "--content")
    assert "not confirmed" in shell.run("watch", "delete", "inbox", status=2).stderr
    shell.run("watch", "delete", "inbox", "--yes")
    assert shell.json("watch", "list") == []


def test_a_watch_that_cannot_be_is_refused_with_what_to_do(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    refused = shell.run("watch", "add", "inbox", "nowhere", status=2)
    assert "no such folder or file" in refused.stderr
    assert f"mkdir -p {tmp_path / 'nowhere'}" in refused.stderr
    shell.run("watch", "add", "inbox", "nowhere", "--missing")
    (tmp_path / "in").mkdir()
    assert (
        "expected version 7"
        in shell.run("watch", "add", "inbox", "in", "--expected-version", "7", status=None).stderr
    )
    for verb in ("show", "files", "rescan", "pause", "resume"):
        assert "functory watch list" in shell.run("watch", verb, "other", status=None).stderr
