"""What packages may not do: come from elsewhere, break the policy, fill the disk, write where they should not."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Invalid, NotFound, Refused
from functory.workers.environments import uv
from tests.support.wheels import Index

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.environment_site import Site, instead_of_uv, wait_for_the_end_of

pytest_plugins = ["tests.support.world"]

# What may not be had.


@pytest.mark.parametrize(
    "requirement",
    [
        "--index-url http://127.0.0.1:1/simple",
        "-r requirements.txt",
        "evil @ file:///tmp/evil-1.0-py3-none-any.whl",
        "ham\n--extra-index-url http://127.0.0.1:1/simple",
        "git+file:///tmp/evil",
    ],
)
def test_nothing_but_names_reaches_uv(site: Site, runs: Callable[[], list[Any]], requirement: str) -> None:
    with pytest.raises(Invalid, match="wrong requirement"):
        site.save(requirement)
    with pytest.raises(NotFound):
        site.functions.get("work")
    assert runs() == []


def test_a_dependency_by_address_is_not_followed(site: Site, index: Index, tmp_path: Path) -> None:
    other = Index()
    other.publish("evil", "1.0")
    try:
        url = f"http://127.0.0.1:{other.port}/files/evil-1.0-py3-none-any.whl"
        index.publish("lure", "1.0", requires=[f"evil @ {url}"])
        row = site.save("lure")
        assert row["environment"] is None and row["environment_error"]
        assert other.requests == []
    finally:
        other.stop()


def test_no_other_index_is_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch, runs: Callable[[], list[Any]], tmp_path: Path
) -> None:
    other = Index()
    other.publish("ham", "99.0")
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, other.url)
    monkeypatch.setenv("FUNCTORY_SECRET_KEY", "not for uv")
    home = tmp_path / "user"
    (home / ".config" / "uv").mkdir(parents=True)
    # The user's own, and that of a project in whose folder the engine has its home.
    for place in (home / ".config" / "uv", tmp_path):
        (place / "uv.toml").write_text(f'[[index]]\nurl = "{other.url}"\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    try:
        row = site.save("ham")
        assert site.environments.get(row["environment"])["packages"] == ["ham==2.0"]
        assert other.requests == []
        for run in runs():
            assert "FUNCTORY_SECRET_KEY" not in run["environment"]
            assert run["environment"]["HOME"] != str(home)
    finally:
        other.stop()


@pytest.mark.parametrize(
    ("settings", "requirements", "said"),
    [
        ({"packages_deny": ["Ham"]}, ["spam"], "no environment may hold ham"),
        ({"packages_deny": ["foo.bar"]}, ["Foo_Bar"], "no environment may hold foo-bar"),
        ({"packages_allow": ["spam"]}, ["spam"], "ham may not be installed"),
        ({"packages_allow": []}, ["ham"], "ham may not be installed"),
        ({"packages_count": 1}, ["spam"], "would hold 2 packages"),
        ({"packages_allow": ["Spam", "HAM"], "packages_count": 2}, ["spam"], None),
    ],
)
def test_policy_holds_for_dependencies_too(
    make_site: Callable[..., Site], settings: dict[str, Any], requirements: list[str], said: str | None
) -> None:
    site = make_site(**settings)
    row = site.save(*requirements)
    if said is None:
        assert row["environment"] and row["active"] == 1
    else:
        assert said in row["environment_error"] and row["active"] is None
        assert site.environments.listing() == []


def test_what_is_denied_later_runs_no_more(make_site: Callable[..., Site]) -> None:
    key = make_site().save("spam")["environment"]
    strict = make_site(packages_deny=["ham"])
    with pytest.raises(Refused, match="ham"):
        strict.environments.ensure(key)
    assert strict.save("spam")["environment"] == key  # nothing about the version is new
    assert "ham" in strict.save("spam", metadata={"a": 1})["environment_error"]


@pytest.mark.parametrize(
    "files", [{"bomb.py": b"\0" * 3_000_000}, {f"bomb/{n}.py": b"\0" * 9000 for n in range(300)}]
)
def test_what_unpacks_to_too_much_is_removed(
    make_site: Callable[..., Site], index: Index, files: dict[str, bytes]
) -> None:
    index.publish("bomb", "1.0", files)
    site = make_site(packages_bytes=1_048_576)
    row = site.save("bomb")
    assert row["environment"] is None and "too large" in row["environment_error"]
    assert site.left() == [] and not (site.folder / "cache").exists()
    assert make_site().save("bomb", metadata={"a": 1})["environment"]


def test_what_fills_the_disk_is_stopped_on_its_way(
    make_site: Callable[..., Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without an end of its own, but at most 200 MB.
    instead_of_uv(
        tmp_path,
        monkeypatch,
        'mkdir -p "$UV_CACHE_DIR/.tmp1"; echo $$ > "$UV_CACHE_DIR/../pid"\n'
        'for n in $(seq 400); do head -c 500000 /dev/zero > "$UV_CACHE_DIR/.tmp1/$n"; done; sleep 60',
    )
    site = make_site(packages_bytes=1_048_576)
    row = site.save("ham")
    assert "too large" in row["environment_error"]
    wait_for_the_end_of(int((site.folder / "pid").read_text()))
    assert not (site.folder / "cache").exists()


def test_uv_that_does_not_end_is_ended(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functory.workers.environments.resolver.RESOLVE_SECONDS", 0.2)
    instead_of_uv(tmp_path, monkeypatch, 'echo $$ > "$UV_CACHE_DIR/../pid"; sleep 60 & sleep 60')
    assert "still at work" in site.save("ham")["environment_error"]
    wait_for_the_end_of(int((site.folder / "pid").read_text()))


def test_without_uv_the_reason_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv, "find_uv_bin", lambda: "/nowhere/uv")
    assert "uv cannot be started" in site.save("ham")["environment_error"]


# Wheels that would do harm.


def test_nothing_of_a_wheel_runs_while_it_is_installed(site: Site, index: Index, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    evil = f"open({str(mark)!r}, 'a').write('x')"
    index.publish(
        "evil",
        "1.0",
        {
            "evil.pth": f"import os; {evil}\n",
            "sitecustomize.py": f"{evil}\n",
            "usercustomize.py": f"{evil}\n",
            "evil.py": f"{evil}\n",
            "setup.py": f"{evil}\n",
        },
    )
    key = site.save("evil")["environment"]
    path = site.environments.ensure(key)
    assert (path / "evil.pth").exists() and not mark.exists()
    assert site.run("print('there')", key) == "there"
    assert not mark.exists()
    # It would have run: a site folder that Python takes for one of its own runs it.
    subprocess.run([sys.executable, "-I", "-c", f"import site; site.addsitedir({str(path)!r})"], check=True)
    assert mark.exists()


@pytest.mark.parametrize(
    "path", ["../../escaped.py", "/tmp/functory-test-escaped.py", "a/../../../escaped.py"]
)
def test_a_wheel_cannot_write_beside_its_environment(
    site: Site, index: Index, path: str, tmp_path: Path
) -> None:
    index.publish("climber", "1.0", {path: "", "climber.py": ""})
    row = site.save("climber")
    inside = site.environments.ensure(row["environment"]) if row["environment"] else None
    stray = [
        found for found in tmp_path.rglob("*escaped.py") if inside is None or inside not in found.parents
    ]
    assert [found for found in stray if "cache" not in found.parts] == []
    assert not Path("/tmp/functory-test-escaped.py").exists()


def test_a_wheel_brings_no_links_and_no_rights(site: Site, index: Index) -> None:
    import io
    import zipfile

    index.publish("linked", "1.0", {"linked.py": "", "target": "/etc/passwd", "tool.sh": "#!/bin/sh\n"})
    file = "linked-1.0-py3-none-any.whl"
    content = index.file(file)
    assert content is not None
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        for entry in old.infolist():
            mode = {"target": stat.S_IFLNK | 0o777, "tool.sh": stat.S_IFREG | 0o6755}.get(entry.filename)
            if mode is not None:
                entry.create_system, entry.external_attr = 3, mode << 16
            new.writestr(entry, old.read(entry.filename))
    index.replace(file, changed.getvalue())
    row = site.save("linked")
    if row["environment"] is None:
        return
    for found in site.environments.ensure(row["environment"]).rglob("*"):
        assert not found.is_symlink()
        assert not found.lstat().st_mode & 0o7000


# Credentials.


def test_only_uv_gets_the_credentials_of_the_index(
    world: World, tmp_path: Path, runs: Callable[[], list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    word = "s3cr3t-w0rd"
    private = Index(password=word)
    private.publish("ham", "1.0")
    try:
        site = Site(world, tmp_path / "machine", private.url)
        good = site.save("ham")
        bad = site.save("nothing-like-it")
        wrong = Site(world, tmp_path / "other", private.url.replace(word, "wr0ng-w0rd")).save("ham<9")
        gone = Site(world, tmp_path / "third", f"http://reader:{word}@127.0.0.1:1/simple").save("ham<8")
    finally:
        private.stop()
    assert good["environment"] and good["environment_error"] is None
    assert "nothing-like-it" in bad["environment_error"]
    assert wrong["environment_error"] and gone["environment_error"]
    assert any(word in run["environment"]["UV_DEFAULT_INDEX"] for run in runs())
    written_texts = [json.dumps(run["arguments"]) for run in runs()]
    with world.database.read() as tx:
        written_texts += [repr(tx.rows(sa.select(table))) for table in schema.metadata.sorted_tables]
    written_texts += [caplog.text, repr(site.settings), repr(site.environments.__dict__)]
    written = [file for file in (tmp_path / "machine").rglob("*") if file.is_file()]
    written_texts += [file.read_bytes().decode(errors="replace") for file in written if file.name != "runs"]
    assert not [text for text in written_texts if word in text or "wr0ng-w0rd" in text]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "Failed to fetch: https://tom:s3cr3t%21@host.example/simple/ham/",
            "Failed to fetch: <package_index>/ham/",
        ),
        ("Failed to fetch: https://host.example/simple/ham/", "Failed to fetch: <package_index>/ham/"),
        ("with the word s3cr3t! or s3cr3t%21", "with the word *** or ***"),
        ("at https://a:b@cdn.example/x.whl?signature=abc", "at https://cdn.example/x.whl"),
        ("\x1b[31merror\x1b[0m: a\x07b", "a b"),
        ("error: No\n  cause: because\n\nhint: do", "No\nbecause\nhint: do"),
        ("x" * 5000, "x" * 1999 + "…"),
    ],
)
def test_what_uv_said_is_cleaned(tmp_path: Path, said: str, kept: str) -> None:
    from pydantic import SecretStr

    one = uv.Uv(tmp_path / "cache", SecretStr("https://tom:s3cr3t%21@host.example/simple"))
    assert one.clean(said) == kept
