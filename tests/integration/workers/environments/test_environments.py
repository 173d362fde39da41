"""Packages from an index to a folder: real uv, a small index on 127.0.0.1, wheels made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Conflict, NotFound, Unavailable
from functory.engine.functions import environments as rows
from functory.engine.functions.environments import PackageNeeds
from functory.engine.functions.registry import Functions
from tests.support.wheels import Index

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.environment_site import BOTH, SOURCE, Site

pytest_plugins = ["tests.support.world"]

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
        events = tx.rows(sa.select(schema.event.c.data).where(schema.event.c.type == "function.updated"))
    assert ["environment"] in [row["data"]["changed"] for row in events]


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
        events = tx.rows(sa.select(schema.event).where(schema.event.c.type == "function.updated"))[-1]["data"]
    assert (events["active"], events["environment_error"]) == (False, row["environment_error"])
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
