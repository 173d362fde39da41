"""``functory demo`` as a user runs it: it shows the licence watch, and it can fail."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

import pytest

from engine.settings import Settings
from functory.demo import functions
from functory.local import Functory
from triggers.outputs import matcher

FUNCTORY = Path(sys.executable).with_name("functory")


def demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a pipe, with ``folder`` for temporary files."""
    return run([str(FUNCTORY), "demo", *arguments], folder, environment)


def run(command: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    clean |= {"TMPDIR": str(folder / "tmp"), **environment}
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=90)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What one run with ``--keep`` has said, and the folder that it kept."""
    folder = tmp_path_factory.mktemp("demo")
    done = demo(folder, "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    homes = list((folder / "tmp").iterdir())
    assert len(homes) == 1
    return done.stdout, homes[0]


def test_it_shows_an_event_travelling(kept: tuple[str, Path]) -> None:
    said, _ = kept
    assert re.search(r"event +package\.found +\S+dist-info/METADATA\n.* parse_metadata v1 ✓ +\d+ ms", said)
    assert re.search(r"event +output\.matched .*copyleft\n.* review_licence v1 ✓", said)


def test_plain_text_comes_out_of_a_pipe(kept: tuple[str, Path]) -> None:
    said, _ = kept
    assert "\x1b" not in said
    assert "\r" not in said


def test_it_says_once_how_functions_are_confined(kept: tuple[str, Path]) -> None:
    said, _ = kept
    (line,) = [line for line in said.splitlines() if "sandbox" in line.lower()]
    assert re.search(r"tier [ABC]: functions run confined", line)


def test_every_package_of_the_environment_was_parsed(kept: tuple[str, Path]) -> None:
    _, home = kept
    installed = {d.metadata["Name"] for d in distributions()}
    with Functory(Settings(home=home)) as engine:
        rows = engine.executions.list(function="parse_metadata", state="succeeded", limit=1000)
    assert installed <= {row["result"]["package"] for row in rows}
    assert all(
        row["versions"] == ["parse_metadata@1", "read_headers@1"] for row in rows if row["version"] == 1
    )


def test_the_report_names_the_licences_that_need_a_look(kept: tuple[str, Path]) -> None:
    said, home = kept
    report = (home / "report.md").read_text()
    # httpx brings certifi, and Functory needs httpx.
    assert re.search(r"\| certifi \| \S+ \| MPL-2.0 \| .+ \|", report)
    assert "certifi" in said.split("3. The report")[1]


def test_the_broken_version_was_rolled_back_and_the_loop_stopped(kept: tuple[str, Path]) -> None:
    said, home = kept
    with Functory(Settings(home=home)) as engine:
        parse = engine.functions.get("parse_metadata")
        assert (parse["number"], parse["latest"]) == (1, 2)
        [update] = engine.events.list(type_="function.updated", subject="parse_metadata")
        [validated] = engine.executions.list(function="validate_parse_metadata")
        assert (validated["state"], validated["root_id"]) == ("failed", update["id"])
        [stopped] = engine.events.list(type_="trigger.suppressed")
        assert stopped["data"]["reason"] == "cycle"
        assert stopped["data"]["trigger"] == "validate-each-change"
    assert "■ guard stopped validate-each-change: cycle" in said


def test_what_it_says_to_try_next_works(kept: tuple[str, Path]) -> None:
    said, home = kept
    tail = said.split("Try next:")[1]
    commands = [line.strip() for line in tail.splitlines() if line.strip()]
    assert commands[0] == f"export FUNCTORY_HOME={home}"
    assert len(commands) > 4
    script = "\n".join(["set -e", *commands])
    done = run(
        ["bash", "-c", script], home.parent.parent, {"PATH": f"{FUNCTORY.parent}:{os.environ['PATH']}"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "validate_parse_metadata" in done.stdout


@pytest.mark.parametrize(
    ("fields", "licence", "patterns"),
    [
        ("License-Expression: MIT", "MIT", []),
        ("License-Expression: MPL-2.0 AND MIT", "MPL-2.0 AND MIT", ["copyleft"]),
        ("License: BSD\n        and a long text", "BSD", []),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License", "MIT License", []),
        (
            "Classifier: License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)",
            None,
            ["copyleft"],
        ),
        ("License: UNKNOWN", None, ["missing"]),
        ("Summary: says nothing", None, ["missing"]),
    ],
)
def test_licences_are_found_however_a_package_names_them(
    fields: str, licence: str | None, patterns: list[str]
) -> None:
    found = functions.parse_metadata(f"Metadata-Version: 2.1\nName: one\nVersion: 1\n{fields}\n")
    assert licence in (None, found["licence"])
    assert [name for name, _ in matcher.match(functions.PATTERNS, found)] == patterns


def test_it_leaves_nothing_behind_and_touches_no_other_database(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    done = demo(tmp_path, FUNCTORY_DATABASE_URL=f"sqlite:///{other}", FUNCTORY_MAX_DEPTH="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_it_fails_and_says_why_when_the_guard_does_not_stop_the_loop(tmp_path: Path) -> None:
    without_guards = (
        "import sys, triggers.router\n"
        "triggers.router.trip = lambda *_: None\n"
        "from functory.demo import run\n"
        "sys.exit(run(quiet=True))\n"
    )
    done = run([sys.executable, "-c", without_guards], tmp_path, {})
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error: the demo did not do what it should" in done.stderr
    assert "the guard stopped nothing" in done.stderr
