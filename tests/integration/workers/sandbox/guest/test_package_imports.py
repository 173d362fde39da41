"""Packages in the sandbox are imported once for all executions, found by their own path only, and never writable."""

from __future__ import annotations

import pytest

from functory.workers.sandbox.protocol.job import Code
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, job

LOADED = "import os\nWHERE = os.getpid(), hash('seed')\nCOUNT = []\n"


@pytest.fixture
def packages(tmp_path):
    """Make a folder of packages that every user may read, as environments are."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "heavy.py").write_text(LOADED)
    (folder / "broken.py").write_text("raise RuntimeError('it does not like to be imported')")
    (folder / "leaving.py").write_text("raise SystemExit(3)")
    (folder / "evil.pth").write_text("import os; os.environ['PTH_RAN'] = 'yes'\n")
    (folder / "sitecustomize.py").write_text("import os; os.environ['CUSTOMISED'] = 'yes'\n")
    tmp_path.chmod(0o755)
    return (str(folder),)


def run(runner, source, **fields):
    return runner.run(job(source, **fields), FakeHost())


def test_a_preloaded_package_is_imported_once_for_all_executions(packages):
    source = "import heavy\ndef f():\n    heavy.COUNT.append(1)\n    return [heavy.WHERE, len(heavy.COUNT)]"
    with Runner() as runner:
        task = {"packages": packages, "preload": ("heavy",)}
        outcomes = [run(runner, source, **task) for _ in range(4)]
        assert [outcome.status for outcome in outcomes] == ["succeeded"] * 4
        # One process has imported it, none of those that ran; and none sees what another has changed in it.
        assert len({tuple(outcome.result[0]) for outcome in outcomes}) == 1
        assert {outcome.result[1] for outcome in outcomes} == {1}
        alone = [run(runner, source, packages=packages) for _ in range(2)]
        assert [outcome.result[1] for outcome in alone] == [1, 1]


@pytest.mark.parametrize("module", ["broken", "leaving", "absent"])
def test_a_package_that_cannot_be_preloaded_fails_where_it_is_imported(packages, module):
    with Runner() as runner:
        task = {"packages": packages, "preload": (module, "heavy")}
        assert run(runner, "import heavy\ndef f():\n    return len(heavy.COUNT)", **task).result == 0
        outcome = run(runner, f"def f():\n    import {module}", **task)
        assert outcome.status == "failed"
        assert outcome.error["type"] in ("RuntimeError", "SystemExit", "ModuleNotFoundError")


def test_code_in_pth_files_and_sitecustomize_never_runs(packages):
    source = "import os\ndef f():\n    return [os.environ.get('PTH_RAN'), os.environ.get('CUSTOMISED')]"
    with Runner() as runner:
        assert run(runner, source, packages=packages, preload=("heavy",)).result == [None, None]


def test_packages_of_one_environment_are_not_there_without_it(packages):
    source = "def f():\n    import heavy"
    with Runner() as runner:
        assert run(runner, source, packages=packages).status == "succeeded"
        assert run(runner, source).error["type"] == "ModuleNotFoundError"


@pytest.mark.parametrize(
    "module",
    ["engine", "workers", "functory.client.functory", "celery", "sqlalchemy", "structlog", "pydantic", "pip"],
)
def test_what_the_worker_is_made_of_cannot_be_imported(module):
    with Runner() as runner:
        outcome = run(runner, f"def f():\n    import {module}")
        assert outcome.status == "failed"
        assert outcome.error["type"] == "ModuleNotFoundError"


def test_packages_cannot_be_changed(packages):
    source = "def f(path):\n    open(path + '/heavy.py', 'a').write('x')"
    with Runner() as runner:
        outcome = run(runner, source, packages=packages, input={"path": packages[0]})
        assert (outcome.status, outcome.error["type"]) in [
            ("failed", "OSError"),
            ("failed", "PermissionError"),
        ]


def test_the_first_of_two_environments_is_found_first(packages, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "heavy.py").write_text("NAME = 'other'")
    (other / "only.py").write_text("NAME = 'only'")
    source = "import heavy, only\ndef f():\n    return [hasattr(heavy, 'NAME'), only.NAME]"
    with Runner() as runner:
        assert run(runner, source, packages=(*packages, str(other))).result == [False, "only"]
        assert run(runner, source, packages=(str(other), *packages)).result == [True, "only"]


def test_declared_imports_of_packages_are_there_by_name(packages):
    entry = Code(name="f", version=1, source="def f():\n    return h.COUNT", imports=("heavy as h",))
    with Runner() as runner:
        assert runner.run(job(entry, packages=packages), FakeHost()).result == []
