"""Builds that meet each other, and executions with the packages that were built."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from functory.cli.main import main
from functory.engine.errors import Conflict, ExecutionFailed, NotFound
from functory.engine.functions import environments as rows
from functory.engine.functions.environments import PackageNeeds
from functory.workers.environments import package_folders
from functory.workers.environments.builder import remove
from tests.support.wheels import Index

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from tests.support.world import World
from tests.support.environment_site import BOTH, NOW, SOURCE, Site, wait_for_the_end_of
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]

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
    assert index.asked.wait(patient(30))
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
    paths = package_folders(claim.codes, site.environments)
    keys = [site.functions.get(name)["environment"] for name in ("top", "low")]
    assert paths == tuple(str(site.environments.ensure(key)) for key in keys)
    plain = world.claim(world.start("mid"))
    assert package_folders(plain.codes, site.environments) == (str(site.environments.ensure(keys[1])),)


def test_an_execution_of_a_version_without_its_packages_tells_why(site: Site, world: World) -> None:
    site.save("ham")
    site.save("missing")
    claim = world.claim(world.start("work", version=2))
    with pytest.raises(Conflict, match="missing was not found"):
        package_folders(claim.codes, site.environments)


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

    output = said("function", "add", "work.py", "--requirement", "late", status=1)
    assert "saved work v1 (none is active)" in output and "late was not found" in output
    assert "functory environment build work@1" in output
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
