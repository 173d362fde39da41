"""Packages from an index to a folder: real uv, a small index on 127.0.0.1, wheels made by hand."""

from __future__ import annotations

import contextlib
import json
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.cli.main import main
from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, ExecutionFailed, Invalid, NotFound, Refused, Unavailable
from functory.engine.functions import environments as rows
from functory.engine.functions.environments import PackageNeeds
from functory.engine.functions.registry import Functions
from functory.engine.settings import Settings
from functory.workers.environments import Environments, package_folders, uv
from functory.workers.environments.builder import remove
from tests.support.wheels import Index

if TYPE_CHECKING:
    from functory.client import Functory
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

SOURCE = "def work():\n    return 1\n"
NOW = timedelta(0)


class Site:
    """One machine of a deployment: a home of its own, a registry and environments over the world's database."""

    def __init__(self, world: World, home: Path, index: str | None, **settings: Any) -> None:
        self.world = world
        self.home = home
        self.folder = home / "environments"
        self.settings = Settings(home=home, package_index=index, **settings)
        self.environments = Environments(self.settings, world.database)
        self.functions = Functions(world.database, None, None, self.environments.resolve)

    def save(self, *requirements: str, source: str = SOURCE, **declared: Any) -> dict[str, Any]:
        """Save the function `work` with these requirements."""
        return self.functions.save(source, requirements=list(requirements), **declared)

    def run(self, program: str, key: str) -> str:
        """Run a program with the packages of an environment, and with nothing else, as a function's process is."""
        path = self.environments.ensure(key)
        command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(path)!r}); {program}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def left(self) -> list[str]:
        """What builds have left behind."""
        return [entry.name for entry in (self.folder / "tmp").glob("*")]


BOTH = pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated database: on SQLite, and on PostgreSQL where a test asks for `BOTH`."""
    if getattr(request, "param", "sqlite") == "sqlite":
        file = tmp_path / "functory.db"
        shutil.copy(request.getfixturevalue("migrated_file"), file)
        return f"sqlite:///{file}"
    database = Database(request.getfixturevalue("postgres_url"))
    migrations.upgrade(database)
    database.close()
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def index() -> Iterator[Index]:
    """An index with a few packages: spam needs ham."""
    opened = Index()
    opened.publish("ham", "1.0")
    opened.publish("ham", "2.0")
    opened.publish("spam", "1.0", requires=["Ham>=1"])
    yield opened
    opened.stop()


@pytest.fixture
def make_site(world: World, index: Index, tmp_path: Path) -> Callable[..., Site]:
    """Makes sites with homes of their own over one database."""
    made: list[Site] = []

    def make(url: str | None = None, **settings: Any) -> Site:
        made.append(Site(world, tmp_path / f"machine{len(made)}", url or index.url, **settings))
        return made[-1]

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """One machine."""
    return make_site()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What uv was started with so far: `arguments` and `environment` of each run."""
    log = tmp_path / "runs"
    log.touch()
    program = tmp_path / "recorded"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"with open({str(log)!r}, 'a') as file:\n"
        "    file.write(json.dumps({'arguments': sys.argv[1:], 'environment': dict(os.environ)}) + '\\n')\n"
        f"os.execv({uv.find_uv_bin()!r}, sys.argv)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(program))
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


def instead_of_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let a shell program be run as uv."""
    file = tmp_path / "instead"
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(file))


def wait_for_the_end_of(group: int) -> None:
    """Fails when a process of this group is alive for longer than a killed one can be; zombies are dead."""
    deadline = time.monotonic() + 10
    alive = [group]
    while alive and time.monotonic() < deadline:
        alive = []
        for process in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, found = process.read_text().rpartition(") ")[2].split()[:3]
                alive += [process.parent.name] if int(found) == group and state not in "ZX" else []
        time.sleep(0.02)
    assert alive == []


# What is asked for is there.


def test_a_saved_version_has_its_packages_and_is_active(site: Site) -> None:
    row = site.save("spam")
    assert (row["active"], row["environment_error"]) == (1, None)
    assert site.environments.get(row["environment"][:10])["packages"] == ["ham==2.0", "spam==1.0"]
    assert site.run("import spam, ham; print(spam.VERSION, ham.VERSION)", row["environment"]) == "1.0 2.0"
    assert site.left() == []


def test_declared_imports_are_installed_and_found_ones_are_not(site: Site, index: Index) -> None:
    index.publish("pyyaml", "6", {"yaml.py": "VERSION = 6\n"})
    found = site.functions.save("import spam\ndef work():\n    return spam\n")
    assert (found["imports"], found["environment"], found["environment_error"]) == (["spam"], None, None)
    row = site.functions.save(
        SOURCE, imports=["yaml", "json", {"name": "eggs", "lib": "Ham"}], requirements=["HAM<2"]
    )
    packages = site.environments.get(row["environment"])["packages"]
    assert packages == ["ham==1.0", "pyyaml==6"]


def test_a_plain_function_costs_no_uv_and_no_statement_more(
    site: Site, world: World, runs: Callable[[], list[Any]]
) -> None:
    world.functions.save("def zero():\n    return 1\n")
    with world.statements() as plainly:
        world.functions.save("def one():\n    return 1\n", imports=["json"])
    with world.statements() as resolving:
        row = site.functions.save("def two():\n    return 1\n", imports=["json"])
    assert (row["environment"], row["environment_error"], row["active"]) == (None, None, 1)
    assert len(resolving) == len(plainly)
    assert runs() == [] and not site.folder.exists()


def test_an_environment_is_read_only_and_has_no_programs(site: Site, index: Index) -> None:
    index.publish("tool", "1", {"tool.py": "", "tool-1.data/scripts/tool": "#!python\nprint('x')\n"})
    path = site.environments.ensure(site.save("tool", "spam")["environment"])
    modes = {file.name: file.lstat().st_mode for file in [path.parent, path, *path.rglob("*")]}
    assert "tool.py" in modes and "bin" not in modes and ".lock" not in modes
    assert all(not mode & 0o222 and mode & 0o444 == 0o444 for mode in modes.values())
    assert any(name.endswith(".pyc") for name in modes)


def test_environments_share_the_files_of_equal_packages(site: Site) -> None:
    one = site.environments.ensure(site.save("ham")["environment"])
    two = site.environments.ensure(site.save("ham", "spam")["environment"])
    assert one != two
    assert (one / "ham.py").stat().st_ino == (two / "ham.py").stat().st_ino


# Nothing changes by itself.


@BOTH
def test_saving_again_keeps_the_packages_until_somebody_renews(
    site: Site, index: Index, runs: Callable[[], list[Any]]
) -> None:
    first = site.save("ham")
    index.publish("ham", "3.0")
    ran = len(runs())
    assert site.save("Ham ")["environment"] == first["environment"]
    changed = site.functions.update("work", metadata={"a": 1})
    assert (changed["created"], changed["environment"]) == (True, first["environment"])
    assert (
        site.functions.save("def other():\n    return 2\n", imports=["ham"])["environment"]
        == first["environment"]
    )
    assert len(runs()) == ran

    newer = site.functions.update("work", renew=True)
    assert (newer["created"], newer["active"]) == (True, newer["number"])
    assert site.run("import ham; print(ham.VERSION)", newer["environment"]) == "3.0"
    assert site.functions.update("work", renew=True)["created"] is False
    back = site.functions.rollback("work")
    assert site.run("import ham; print(ham.VERSION)", back["environment"]) == "2.0"
    with site.world.database.read() as tx:
        told = tx.rows(sa.select(schema.event.c.data).where(schema.event.c.type == "function.updated"))
    assert ["environment"] in [row["data"]["changed"] for row in told]


def test_a_renewal_that_fails_changes_nothing(site: Site, index: Index) -> None:
    row = site.save("ham")
    index.stop()
    with pytest.raises(Conflict, match="stay as they are"):
        site.functions.update("work", renew=True)
    assert site.functions.get("work")["number"] == row["number"]


def test_packages_that_are_older_than_a_moment(make_site: Callable[..., Site]) -> None:
    # This index tells no times of upload, so nothing is known to be old enough.
    row = make_site(packages_newest="2026-01-01").save("ham")
    assert row["environment"] is None and "ham" in row["environment_error"]


# Another machine, another time.


def test_another_worker_builds_from_the_lock_and_resolves_nothing(
    make_site: Callable[..., Site], index: Index, runs: Callable[[], list[Any]]
) -> None:
    key = make_site().save("spam")["environment"]
    index.publish("ham", "9.0")
    before = len(runs())
    worker = make_site()
    assert worker.run("import ham; print(ham.VERSION)", key) == "2.0"
    (run,) = runs()[before:]
    assert "install" in run["arguments"] and "--require-hashes" in run["arguments"]


def test_without_its_index_an_environment_that_is_there_works(
    make_site: Callable[..., Site], index: Index
) -> None:
    one, two = make_site(), make_site()
    key = one.save("spam")["environment"]
    index.stop()
    again = Site(one.world, one.home, index.url)
    assert again.run("import spam; print(spam.VERSION)", key) == "1.0"
    assert again.save("spam")["environment"] == key
    with pytest.raises(Unavailable, match="packages cannot be installed now"):
        two.environments.ensure(key)
    missing = again.save("spam<9")
    assert missing["environment_error"] and "<package_index>" in missing["environment_error"]


def test_a_wheel_that_is_not_the_locked_one_is_refused(make_site: Callable[..., Site], index: Index) -> None:
    key = make_site().save("ham")["environment"]
    index.publish("ham", "2.0", {"ham.py": "VERSION = 'another'\n"})
    worker = make_site()
    with pytest.raises(Conflict, match=r"(?i)hash"):
        worker.environments.ensure(key)
    assert not (worker.folder / key).exists() and worker.left() == []


def test_an_environment_for_another_python_is_refused(site: Site) -> None:
    key = site.save("ham")["environment"]
    with site.world.database.write() as tx:
        tx.execute(sa.update(schema.environment).values(python="2.7"))
    with pytest.raises(Conflict, match=r"Python 2\.7"):
        Site(site.world, site.home, None).environments.ensure(key)


def test_an_unknown_environment_is_not_found(site: Site) -> None:
    with pytest.raises(NotFound):
        site.environments.ensure("0" * 64)


def test_a_damaged_environment_is_built_again(site: Site) -> None:
    key = site.save("ham")["environment"]
    place = site.folder / key
    place.chmod(0o755)
    (place / "environment.json").unlink()
    assert site.run("import ham; print(ham.VERSION)", key) == "2.0"


# What cannot be had.


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        (["nothing-like-it"], "nothing-like-it was not found"),
        (["ham<2", "ham>=2"], "unsatisfiable"),
        (["ham>7"], "ham"),
        (["spam", "ham<1"], "ham"),
        (["source-only"], "no usable wheels"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_had_is_saved_with_the_reason_and_not_activated(
    site: Site, index: Index, requirements: list[str], reason: str
) -> None:
    index.publish_source("source-only", "1.0")
    site.save("ham")
    row = site.save(*requirements)
    assert (row["number"], row["active"], row["environment"], row["created"]) == (2, 1, None, True)
    assert reason in row["environment_error"]
    with site.world.database.read() as tx:
        told = tx.rows(sa.select(schema.event).where(schema.event.c.type == "function.updated"))[-1]["data"]
    assert (told["active"], told["environment_error"]) == (False, row["environment_error"])
    with pytest.raises(Conflict) as refused:
        site.functions.activate("work", 2)
    assert reason in refused.value.why and refused.value.try_ == "functory environment build work@2"
    assert site.functions.get("work")["number"] == 1
    assert site.save(*requirements)["number"] == 2


@BOTH
def test_a_failed_version_can_be_built_later(site: Site, index: Index) -> None:
    row = site.save("late")
    assert row["active"] is None and row["environment_error"]
    assert site.functions.build_environment("work", 1)["environment_error"]
    index.publish("late", "1.0")
    equipped = site.functions.build_environment("work", 1)
    assert equipped["environment"] and equipped["environment_error"] is None
    assert site.functions.activate("work", 1)["active"] == 1


@BOTH
def test_saving_again_tries_again_in_place(site: Site, index: Index) -> None:
    site.save("ham")
    failed = site.save("late")
    index.publish("late", "1.0")
    row = site.save("late")
    assert (row["number"], row["active"], row["created"]) == (failed["number"], failed["number"], False)
    assert row["environment"] and site.functions.get("work")["environment_error"] is None
    assert "function.activated" in site.world.types()


def test_a_proposal_is_resolved_as_well(site: Site) -> None:
    assert site.save("ham", activate=False)["environment"]
    row = site.save("missing", activate=False)
    assert row["environment_error"] and row["number"] == 2
    assert site.save("missing", activate=False)["number"] == 2


def test_a_version_of_before_is_resolved_when_it_is_activated(site: Site) -> None:
    old = Functions(site.world.database)
    old.save(SOURCE, imports=["ham"])
    old.save(SOURCE, imports=["missing"])
    old.save(SOURCE)
    assert site.functions.activate("work", 1)["environment"]
    with pytest.raises(Conflict, match="missing"):
        site.functions.activate("work", 2)
    assert site.functions.rollback("work", author="x") if site.functions.get("work")["number"] > 1 else True


def test_a_rollback_skips_what_has_no_packages(site: Site) -> None:
    site.save("ham")
    site.save("missing")
    site.save()
    assert site.functions.rollback("work")["number"] == 1


def test_a_change_of_packages_meanwhile_is_a_conflict(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.save("ham")
    resolve = site.environments.resolve

    def slowly(needs: PackageNeeds, *, renew: bool = False) -> rows.Resolved:
        Functions(site.world.database).update("work", requirements=["spam"])
        return resolve(needs, renew=renew)

    with pytest.raises(Conflict, match="meanwhile"):
        Functions(site.world.database, None, None, slowly).update("work", metadata={"a": 1})


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


def test_credentials_of_the_index_are_told_to_nobody_but_uv(
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
    told = [json.dumps(run["arguments"]) for run in runs()]
    with world.database.read() as tx:
        told += [repr(tx.rows(sa.select(table))) for table in schema.metadata.sorted_tables]
    told += [caplog.text, repr(site.settings), repr(site.environments.__dict__)]
    written = [file for file in (tmp_path / "machine").rglob("*") if file.is_file()]
    told += [file.read_bytes().decode(errors="replace") for file in written if file.name != "runs"]
    assert not [text for text in told if word in text or "wr0ng-w0rd" in text]


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


# Several at a time, and sudden ends.


def test_threads_and_machines_of_one_home_build_once(
    make_site: Callable[..., Site], index: Index, runs: Callable[[], list[Any]]
) -> None:
    key = make_site().save("spam")["environment"]
    worker = make_site()
    before = len(runs())
    # Two with a state of their own are as two processes: locks belong to the open file.
    both = [worker.environments, Site(worker.world, worker.home, index.url).environments]
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda one=both[n % 2]: found.append(one.ensure(key))) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert len(runs()) == before + 1
    assert worker.left() == []


def test_the_same_request_at_the_same_time_is_answered_once(
    site: Site, runs: Callable[[], list[Any]]
) -> None:
    found: list[rows.Resolved] = []
    needs = PackageNeeds(("spam",))
    threads = [
        threading.Thread(target=lambda: found.append(site.environments.resolve(needs))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.environment for one in found}) == 1 and found[0].environment
    assert len([run for run in runs() if "compile" in run["arguments"]]) == 1


def test_a_builder_killed_on_its_way_leaves_nothing_that_matters(
    make_site: Callable[..., Site], index: Index, tmp_path: Path
) -> None:
    key = make_site().save("spam")["environment"]
    worker = make_site()
    program = (
        "import sys\n"
        "from functory.engine.database.connection import Database\n"
        "from functory.engine.settings import Settings\n"
        "from functory.workers.environments import Environments\n"
        "home, index, url, key = sys.argv[1:]\n"
        "settings = Settings(home=home, package_index=index)\n"
        "print(Environments(settings, Database(url)).ensure(key))\n"
    )
    command = [sys.executable, "-c", program, str(worker.home), index.url, worker.world.url, key]
    index.asked.clear()
    index.open.clear()
    killed = subprocess.Popen(command, cwd=Path(__file__).parents[4], stdout=subprocess.DEVNULL)
    assert index.asked.wait(30)
    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    killed.kill()
    killed.wait()
    # uv ends with the one that watches it.
    for child in children:
        wait_for_the_end_of(int(child))
    assert children and worker.left() and not (worker.folder / key).exists()
    index.open.set()
    assert worker.run("import spam; print(spam.VERSION)", key) == "1.0"
    assert worker.left() == []


# What is used, and what is not.


def test_an_execution_gets_the_packages_of_its_dependencies_after_its_own(site: Site, world: World) -> None:
    site.functions.save("def low():\n    return 1\n", requirements=["ham<2"])
    site.functions.save("def mid():\n    return low()\n", dependencies=["low"])
    site.functions.save(
        "def top():\n    return mid() + same()\n", requirements=["spam"], dependencies=["mid", "same"]
    ) if site.functions.save("def same():\n    return 1\n", requirements=["spam"]) else None
    claim = world.claim(world.start("top"))
    paths = package_folders(claim, site.environments)
    keys = [site.functions.get(name)["environment"] for name in ("top", "low")]
    assert paths == tuple(str(site.environments.ensure(key)) for key in keys)
    plain = world.claim(world.start("mid"))
    assert package_folders(plain, site.environments) == (str(site.environments.ensure(keys[1])),)


def test_an_execution_of_a_version_without_its_packages_tells_why(site: Site, world: World) -> None:
    site.save("ham")
    site.save("missing")
    claim = world.claim(world.start("work", version=2))
    with pytest.raises(Conflict, match="missing was not found"):
        package_folders(claim, site.environments)


@BOTH
def test_pruning_removes_what_no_function_needs(make_site: Callable[..., Site], world: World) -> None:
    site = make_site()
    used = site.save("ham")["environment"]
    deleted = site.functions.save("def gone():\n    return 1\n", requirements=["spam"])["environment"]
    site.functions.delete("gone")
    stray = site.environments.resolve(PackageNeeds(("ham<2",))).environment
    assert site.environments.prune() == type(site.environments.prune())([], [])
    world.advance(7200)
    done = site.environments.prune("ada", min_age=NOW)
    assert done.deleted_environments == [stray] and sorted(done.removed_folders) == sorted([deleted, stray])
    assert [row["key"] for row in site.environments.listing() if row["built"]] == [used]
    # Its versions may be asked for again.
    assert site.run("import spam; print(spam.VERSION)", deleted) == "1.0"
    with pytest.raises(NotFound):
        site.environments.ensure(str(stray))
    assert site.environments.resolve(PackageNeeds(("ham<2",))).environment == stray
    site.environments.prune(min_age=NOW, cache=True)
    assert not (site.folder / "cache").exists()
    assert site.run("import ham; print(ham.VERSION)", used) == "2.0"


# As a user sees it.


def test_the_command_line_says_what_is_missing_and_fails(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUNCTORY_PACKAGE_INDEX", index.url)
    (tmp_path / "work.py").write_text(SOURCE)

    def said(*arguments: str, status: int = 0) -> str:
        assert main(list(arguments)) == status
        captured = capsys.readouterr()
        return captured.out + captured.err

    told = said("function", "add", "work.py", "--requirement", "late", status=1)
    assert "saved work v1 (none is active)" in told and "late was not found" in told
    assert "functory environment build work@1" in told
    assert "late was not found" in said("function", "show", "work")
    assert "late was not found" in said("environment", "build", "work@1", status=1)
    assert "late was not found" in said("function", "activate", "work", "1", status=5)
    assert "late was not found" in said("environment", "show", "work", status=1)
    index.publish("late", "1.0")
    assert "late==1.0" in said("environment", "build", "work@1")
    said("function", "activate", "work", "1")
    assert "late==1.0" in said("environment", "show", "work")
    assert json.loads(said("environment", "list", "--json"))[0]["used_by"] == ["work@1"]
    index.publish("late", "2.0")
    assert "work v2 is new and has its packages: late==2.0" in said("environment", "build", "work", "--renew")
    assert "wrong requirement" in said("function", "add", "work.py", "-r", "--pre", status=2)
    assert "0 removed" in said("environment", "prune", "--yes")


def test_the_real_index(world: World, tmp_path: Path) -> None:
    site = Site(world, tmp_path / "machine", None)
    row = site.save("idna>=3")
    if row["environment_error"] and "idna was not found" not in row["environment_error"]:
        pytest.skip(f"the default index cannot be reached: {row['environment_error']}")
    assert site.run("import idna; print(idna.encode('ü').decode())", row["environment"]) == "xn--tda"


@pytest.fixture
def engine(tmp_path: Path, index: Index) -> Iterator[Functory]:
    """An embedded engine whose packages come from the test's index."""
    from tests.support.world import embedded

    with embedded(tmp_path, package_index=index.url) as opened:
        yield opened


def test_a_function_runs_with_its_packages(engine: Functory, index: Index, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    index.publish(
        "hooked", "1.0", {"hooked.pth": f"import os; open({str(mark)!r}, 'a')\n", "hooked.py": "SIZE = 3\n"}
    )
    source = "def use(size: int = hooked.SIZE) -> list:\n    import ham\n    return [ham.VERSION, size]\n"
    row = engine.functions.save(source, imports=["hooked"], requirements=["ham<2"])
    assert (row["active"], row["environment_error"]) == (1, None)
    assert engine.call("use") == ["1.0", 3]
    assert not mark.exists()
    # Beside it, one that declares nothing has nothing.
    engine.functions.save("def bare():\n    import ham\n")
    with pytest.raises(ExecutionFailed, match="No module named 'ham'"):
        engine.call("bare")


def test_a_function_cannot_change_its_packages(engine: Functory) -> None:
    source = (
        "def change():\n"
        "    import os\n"
        "    said = []\n"
        "    for act in (lambda: open(ham.__file__, 'a'), lambda: os.chmod(ham.__file__, 0o666),\n"
        "                lambda: os.unlink(ham.__file__), lambda: os.mkdir(ham.__file__ + '.d')):\n"
        "        try:\n"
        "            act()\n"
        "            said.append('done')\n"
        "        except OSError:\n"
        "            said.append('refused')\n"
        "    return said\n"
    )
    row = engine.functions.save(source, imports=["ham"])
    before = (engine.environments.ensure(row["environment"]) / "ham.py").read_bytes()
    assert engine.call("change") == ["refused"] * 4
    assert (engine.environments.ensure(row["environment"]) / "ham.py").read_bytes() == before


def test_an_execution_whose_packages_are_away_is_tried_again(engine: Functory, index: Index) -> None:
    row = engine.functions.save(
        "def use():\n    return ham.VERSION\n", imports=["ham"], limits={"max_attempts": 1}
    )
    remove(engine.environments.ensure(row["environment"]).parent)
    remove(engine.settings.home / "environments" / "cache")
    index.stop()
    with pytest.raises(ExecutionFailed, match="packages cannot be installed now") as ended:
        engine.call("use")
    assert (ended.value.state, ended.value.error["type"]) == ("dead", "EnvironmentUnavailable")
