"""The built distributions: what is in them, and that they work in an environment that has nothing else.

The wheel is installed into an empty environment beside an application with modules called `engine`, `workers`,
`triggers`, `packs` and `migrations` of its own. The wheel of the source distribution has the same files.
The commands of the page about installing are run here.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.acceptance import test_docs
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
# The pages of the dashboard as they are built.
STATIC = "functory/dashboard/static/"
ROOMS = ("engine", "workers", "triggers", "packs", "migrations")

APPLICATION = """\
import engine, workers, triggers, packs, migrations
from functory import Functory, register_function

@register_function(timeout=5)
def shout(text: str) -> str:
    return text.upper() + "!"

if __name__ == "__main__":
    for module in (engine, workers, triggers, packs, migrations):
        assert module.OWNER == "the application", module
    with Functory() as functory:
        print(functory.call("shout", "it works"))
"""

# A small user's project: the public API with the types that a caller relies on.
TYPED = """\
from functory import ExecutionFailed, Functory, Handle, Invalid, Settings, call, emit, gather
from functory import register_function, register_trigger, submit
from functory import execution, log, memory, progress, secret, state


@register_function
def parse(text: str) -> list[str]:
    return text.split()


@register_function(timeout=30, retries=3, dependencies=["parse"])
def count(text: str) -> int:
    return len(parse(text))


@register_function(secrets=["KEY"])
def seen(page: str) -> int:
    times: int = state.get(page, 0) + 1
    version: int = state.set(page, times)
    key: str = secret("KEY")
    log.info("seen", page=page, version=version, key=len(key))
    progress(1, 2)
    memory.add(page, kind="fact")
    identity: str = execution.id
    return times + len(identity) + execution.attempt


def test_seen(functory: Functory) -> None:
    functory.settle()
    assert functory.call("seen", "a") == 1


def main() -> int:
    words: list[str] = parse("a b")
    number: int = count("a b")
    register_trigger("recount", on={"type": ["text.found"]}, function="count")
    event_id: str = emit("text.found", {"text": "a b"}, subject="page")
    handle: Handle = submit("count", "a b")
    try:
        gather(handle)
        call("count", "a b")
    except (ExecutionFailed, Invalid) as error:
        print(event_id, error, words, number)
    with Functory(Settings()) as engine:
        engine.call("count", "a b")
    return 0
"""

# No type of these is in the public API, and to read them takes longer than all the rest.
MYPY = """\
[mypy-alembic.*,celery.*,kombu.*,psycopg.*,rich.*,sqlalchemy.*,structlog.*]
follow_imports = skip

[mypy-functory.triggers.*,functory.roles.*,functory.api.*,functory.packs.*,functory.migrations.*,functory.explanations.*,functory.terminal.*]
follow_imports = skip

[mypy-functory.engine.maintenance.*,functory.engine.database.*,functory.engine.tallies.*,functory.engine.telemetry.*,functory.engine.flow_control.*]
follow_imports = skip
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command without the settings of this process; return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FUNCTORY_", "PYTHON"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=patient(110),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, the wheel, and `again/` with the wheel built from the former."""
    folder = tmp_path_factory.mktemp("dist")
    build = (SCRIPTS / "uv", "build", "--no-build-isolation", "--python", sys.executable, "--quiet")
    run(*build, "--sdist", "--wheel", "--out-dir", folder, ROOT, cwd=folder)
    (sdist,) = folder.glob("*.tar.gz")
    run(*build, "--wheel", "--out-dir", folder / "again", sdist, cwd=folder)
    return folder


def wheel_of(built: Path, origin: str) -> Path:
    """The wheel built from the repository, or from the source distribution."""
    (wheel,) = (built if origin == "repository" else built / "again").glob("*.whl")
    return wheel


def test_the_wheel_brings_one_import_package_with_its_types(built: Path):
    with zipfile.ZipFile(wheel_of(built, "repository")) as wheel:
        names = wheel.namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"functory"}
    assert "functory/py.typed" in names
    migrations = {"script.py.mako", "versions/0100_postgresql.sql", "versions/0100_sqlite.sql"}
    assert {f"functory/migrations/{name}" for name in migrations} <= set(names)


def test_the_wheel_brings_the_built_pages_and_nothing_that_builds_them(built: Path):
    """An installation needs no Node."""
    with zipfile.ZipFile(wheel_of(built, "repository")) as wheel:
        pages = {name.removeprefix(STATIC) for name in wheel.namelist() if name.startswith(STATIC)}
        page = wheel.read(f"{STATIC}index.html").decode()
        sources = [
            name for name in wheel.namelist() if re.search(r"node_modules|package.*\.json|\.tsx?$", name)
        ]
    named = set(re.findall(r"/(assets/[^\"']+)", page))
    assert len(named) >= 2
    assert named <= pages
    assert pages == {
        str(path.relative_to(ROOT / STATIC)) for path in (ROOT / STATIC).rglob("*") if path.is_file()
    }
    assert sources == []


def test_a_clone_without_node_builds_the_pages_with_the_node_of_the_lock(tmp_path: Path):
    """The same sources give the same bytes, with any Node."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "env", "ls", "head", "cmp", "cp", "dirname"):
        (programs / name).symlink_to(shutil.which(name) or name)
    given = {"PATH": str(programs), "VIRTUAL_ENV": sys.prefix, "DASHBOARD_STATIC": str(tmp_path / "static")}
    subprocess.run(["sh", ROOT / "dashboard" / "build.sh"], env=given | {"STRICT": "1"}, check=True)
    first, second = (
        {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        for top in (tmp_path / "static", ROOT / STATIC)
    )
    assert first == second


def test_both_wheels_hold_the_same_files(built: Path):
    first, second = (
        {entry.filename: entry.CRC for entry in zipfile.ZipFile(wheel_of(built, origin)).infolist()}
        for origin in ("repository", "source distribution")
    )
    assert first == second


def test_the_source_distribution_leaves_the_links_of_the_repository_out(built: Path):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert [member.name for member in members if member.issym() or member.islnk()] == []
    assert {member.name.split("/")[1] for member in members} & set(ROOMS) == set()


def test_an_application_with_modules_of_the_same_names_runs_a_function(built: Path, tmp_path: Path):
    uv, environment = SCRIPTS / "uv", tmp_path / "environment"
    run(uv, "venv", "--quiet", "--python", sys.executable, environment, cwd=tmp_path)
    install = (uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python")
    run(*install, "--require-hashes", "-r", ROOT / "locks" / "run.txt", cwd=tmp_path)
    run(*install, "--no-deps", wheel_of(built, "repository"), cwd=tmp_path)
    application = tmp_path / "application"
    for name in ("workers", "migrations"):
        (application / name).mkdir(parents=True)
        (application / name / "__init__.py").write_text('OWNER = "the application"\n')
    for name in ("engine", "triggers", "packs"):
        (application / f"{name}.py").write_text('OWNER = "the application"\n')
    (application / "main.py").write_text(APPLICATION)
    assert run(environment / "bin" / "python", "main.py", cwd=application) == "IT WORKS!\n"
    assert "shout" in run(environment / "bin" / "functory", "function", "list", cwd=application)


def test_the_page_about_installing_works_in_a_clone_and_an_empty_home(tmp_path: Path):
    clone, page = tmp_path / "clone", (ROOT / "docs" / "how-to" / "install.md").read_text()
    files = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, files):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    (block,) = re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    steps = test_docs.commands(block.splitlines(), 0, False)
    script = "set -e\n" + "".join(f"echo '$'\n{step.command}\n" for step in steps)
    # Not the environment of the tests; pip may use what it has downloaded before.
    cache = os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache" / "pip")
    paths = [path for path in os.environ["PATH"].split(os.pathsep) if Path(path) != SCRIPTS]
    said = run(
        "bash", "-c", script, cwd=clone, HOME=str(tmp_path), PIP_CACHE_DIR=cache, PATH=os.pathsep.join(paths)
    )
    answers = [answer.strip("\n").split("\n") for answer in said.split("$\n")[1:]]
    for step, answer in zip(steps, answers, strict=True):
        assert not step.answer or test_docs.matches(step.answer, answer), (step.command, answer)
    work = tmp_path / "work"
    work.mkdir()
    (work / "double.py").write_text("def double(x: int) -> int:\n    return 2 * x\n")
    functory = tmp_path / "functory" / "bin" / "functory"
    run(functory, "function", "add", "double.py", cwd=work)
    assert run(functory, "run", "double", "--input", "x=21", cwd=work) == "42\n"


@pytest.mark.parametrize("writable", [True, False])
def test_make_gives_uv_a_cache_that_can_be_written(writable: bool, tmp_path: Path):
    # Below a file nothing can be made, not even by root.
    (tmp_path / "file").touch()
    home = tmp_path / ("home" if writable else "file/home")
    show = ("make", "--silent", "--eval", "show: ; @echo $$UV_CACHE_DIR", "show")
    found = run(*show, cwd=ROOT, HOME=str(home), XDG_CACHE_HOME="", UV_CACHE_DIR="").strip()
    assert found == (f"{home}/.cache/uv" if writable else f"{ROOT}/.venv/.uv-cache")


def test_mypy_in_strict_mode_passes_on_right_uses_of_the_public_api_and_sees_a_wrong_one(tmp_path: Path):
    wrong = TYPED.replace('number: int = count("a b")', 'number: str = count("a b")')
    strict = (SCRIPTS / "mypy", "--strict", "--follow-imports=silent", "--cache-dir", os.devnull)
    (tmp_path / "mypy.ini").write_text(MYPY)
    (tmp_path / "right.py").write_text(TYPED)
    (tmp_path / "wrong.py").write_text(wrong)
    with pytest.raises(AssertionError) as found:
        run(*strict, "right.py", "wrong.py", cwd=tmp_path, MYPYPATH=str(ROOT))
    said = str(found.value)
    assert re.search(r"^wrong\.py:\d+: error: Incompatible types in assignment", said, re.MULTILINE)
    assert "Found 1 error in 1 file (checked 2 source files)" in said
