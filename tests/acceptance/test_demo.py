"""``functory demo`` as a user runs it: it shows the licence watch, and it can fail."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

import httpx
import pytest

from functory.client.functory import Functory
from functory.demo import functions
from functory.engine.settings import load_settings
from functory.triggers.patterns.output_patterns import matcher
from tests.services.missing_servers import require
from tests.support.console_script import PROGRAM, shell_folder
from tests.support.patience import patient
from tests.support.waiting import wait_for


def demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a pipe, with ``folder`` for temporary files."""
    return run([str(PROGRAM), "demo", *arguments], folder, environment)


def run(command: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    clean |= {"TMPDIR": str(folder / "tmp"), **environment}
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=patient(90))


def opened(home: Path) -> Functory:
    """The engine of a folder that a demo has kept."""
    return Functory(load_settings(home=home / ".functory"))


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
    assert re.search(
        r"\$ cp (\S+\.METADATA) inbox/\n+\$ functory execution tree (\S+)\nevent file\.created \S+/inbox/\1  \2\n"
        r"└─ ✓ parse_metadata v1 succeeded .* trigger parse-each-file",
        said,
    )
    assert re.search(r"event output\.matched copyleft .*\n +└─ ✓ review_licence v1 succeeded", said)
    assert re.search(
        r"event execution\.succeeded review_licence .*\n +└─ ✓ licence_report v1 succeeded", said
    )


@pytest.fixture
def programs() -> str:
    """A PATH with a ``functory`` that starts quickly."""
    return f"{shell_folder()}:{os.environ['PATH']}"


def test_it_shows_commands_with_what_they_print(kept: tuple[str, Path], programs: str) -> None:
    said, home = kept
    shown = re.findall(
        r"^\$ (functory (?:trigger graph|execution tree|execution why).*)\n((?:.+\n)+)", said, re.M
    )
    assert len(shown) >= 4
    environment = {
        "FUNCTORY_HOME": str(home / ".functory"),
        "PATH": programs,
    }
    for command, printed in shown:
        assert run(["bash", "-c", command], home.parent.parent, environment).stdout == printed


def test_each_file_in_the_folder_became_one_event_and_one_execution_of_its_tree(
    kept: tuple[str, Path],
) -> None:
    _, home = kept
    with opened(home) as engine:
        arrived = engine.events.list(type_="file.created", limit=1000)
        ran = engine.executions.list(function="parse_metadata", limit=1000)
    files = sorted(str(file) for file in (home / "inbox").iterdir())
    assert sorted(event["subject"] for event in arrived) == files
    by_root = [row["root_id"] for row in ran if row["cause"] == "trigger"]
    assert sorted(by_root) == sorted(event["id"] for event in arrived)
    assert {event["source"] for event in arrived} == {"/functory/file/inbox"}


def test_the_schedule_ticked_each_second_and_its_function_wrote_the_report(kept: tuple[str, Path]) -> None:
    said, home = kept
    with opened(home) as engine:
        ticks = engine.schedules.ticks("report", 1000)
        reviewed = engine.executions.list(function="review_licence", state="succeeded", limit=1000)
    times = [tick["fire_time"] for tick in ticks]
    assert len(set(times)) == len(times) >= 2
    report = (home / "report" / "licences.md").read_text().splitlines()
    assert len(report) == 4 + len(reviewed)
    assert "Written by the schedule" in said
    assert re.search(r"\$ functory schedule ticks report -n 3\n(.*\tcalendar\t.*\n){2,}", said)


def test_plain_text_comes_out_of_a_pipe(kept: tuple[str, Path]) -> None:
    said, _ = kept
    assert "\x1b" not in said
    assert "\r" not in said


def test_it_says_once_how_functions_are_confined(kept: tuple[str, Path]) -> None:
    said, _ = kept
    (line,) = [line for line in said.splitlines() if "sandbox" in line.lower()]
    assert re.search(r"\bsandbox tier [ABC]\b", line)


def test_every_package_of_the_environment_was_parsed(kept: tuple[str, Path]) -> None:
    _, home = kept
    installed = {d.metadata["Name"] for d in distributions()}
    with opened(home) as engine:
        listed = engine.executions.list(function="parse_metadata", state="succeeded", limit=1000)
        rows = engine.executions.wait(row["id"] for row in listed)
    assert installed <= {row["result"]["package"] for row in rows}
    assert all(
        row["versions"] == ["parse_metadata@1", "read_headers@1"] for row in rows if row["version"] == 1
    )


def test_the_report_names_the_licences_that_need_a_look(kept: tuple[str, Path]) -> None:
    said, home = kept
    report = (home / "report" / "licences.md").read_text()
    # httpx brings certifi, and Functory needs httpx.
    assert re.search(r"\| certifi +\| \S+ +\| MPL-2.0 +\| .+ \|", report)
    assert "certifi" in said.split("4. The report")[1]


def test_the_broken_version_was_rolled_back_and_the_loop_stopped(kept: tuple[str, Path]) -> None:
    said, home = kept
    with opened(home) as engine:
        parse = engine.functions.get("parse_metadata")
        assert (parse["number"], parse["latest"]) == (1, 2)
        [update] = engine.events.list(type_="function.updated", subject="parse_metadata")
        [validated] = engine.executions.list(function="validate_parse_metadata")
        assert (validated["state"], validated["root_id"]) == ("failed", update["id"])
        [stopped] = engine.events.list(type_="trigger.suppressed", payloads=True)
        assert stopped["data"]["reason"] == "cycle"
        assert stopped["data"]["trigger"] == "validate-each-change"
    assert "⊘ trigger validate-each-change v1 suppressed: cycle (limit 1, value 2)" in said


def test_what_it_says_to_try_next_works(kept: tuple[str, Path], programs: str) -> None:
    said, home = kept
    tail = said.split("Try next:")[1]
    commands = [line.strip() for line in tail.splitlines() if line.strip()]
    assert commands[0] == f"cd {home} && export FUNCTORY_HOME=$PWD/.functory"
    assert len(commands) > 4
    script = "\n".join(["set -e", *commands])
    done = run(["bash", "-c", script], home.parent.parent, {"PATH": programs})
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
    fields: str, licence: str | None, patterns: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "one.METADATA"
    file.write_text(f"Metadata-Version: 2.1\nName: one\nVersion: 1\n{fields}\n")
    found = functions.parse_metadata(str(file))
    assert licence in (None, found["licence"])
    assert [name for name, _ in matcher.match(functions.PATTERNS, found)] == patterns


# Three packages are enough for the runs below: an ordinary licence, a copyleft one, and one that names none.
FEW = """
import sys
from functory.demo import licence_watch
every = licence_watch.metadata_files
def few():
    found = {}
    for name, file in every().items():
        licence = licence_watch.functions.parse_metadata(str(file))["licence"]
        found.setdefault(licence_watch._licence_category(licence), (name, file))
    return dict(found.values())
licence_watch.metadata_files = few
"""


def test_it_leaves_nothing_behind_and_touches_no_other_database(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    command = f"{FEW}from functory.cli.main import main\nsys.exit(main(['demo']))\n"
    environment = {"FUNCTORY_DATABASE_URL": f"sqlite:///{other}", "FUNCTORY_MAX_DEPTH": "1"}
    done = run([sys.executable, "-c", command], tmp_path, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_it_fails_and_says_why_when_a_file_has_two_events_and_when_the_guard_does_not_stop_the_loop(
    tmp_path: Path,
) -> None:
    broken = (
        "from functory.engine.sources.store import Sources\n"
        "ingest = Sources.ingest\n"
        "Sources.ingest = lambda self, held, arrivals, **more: ingest(self, held, [*arrivals, *arrivals], **more)\n"
        "import functory.triggers.routing.decision\n"
        "functory.triggers.routing.decision.check_guards = lambda *_: None\n"
        "from functory.cli.main import main\n"
        "sys.exit(main(['demo']))\n"
    )
    done = run([sys.executable, "-c", FEW + broken], tmp_path, {})
    assert done.returncode == 1
    assert "error: the demo did not do what it should" in done.stderr
    assert "became 2 events, expected one" in done.stderr
    assert "the guard stopped nothing" in done.stderr


def test_it_serves_the_dashboard_on_what_it_has_made_until_it_is_ended(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = f"{FEW}from functory.cli.main import main\nsys.exit(main(['demo', '--open', '--port', '0']))\n"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    with subprocess.Popen(
        [sys.executable, "-c", command],
        cwd=tmp_path,
        env=clean | {"TMPDIR": str(tmp_path / "tmp"), "FUNCTORY_HOST": "0.0.0.0", "FUNCTORY_API": "off"},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            found = next(
                found for line in running.stdout if (found := re.search(r"(http://\S+)/#login=(\S+)", line))
            )
            url, link = found.groups()
            assert url.startswith("http://127.0.0.1:")
            with httpx.Client(base_url=f"{url}/api/v1", headers={"origin": url}) as browser:
                assert browser.get("/executions").status_code == 401
                assert browser.post("/login", json={"link": link}).status_code == 204
                assert browser.post("/login", json={"link": link}).status_code == 403
                rows = browser.get("/executions", params={"function": "roll_back"}).json()["items"]
                assert [row["state"] for row in rows] == ["succeeded"]
                page = browser.get(url, headers={"accept": "text/html"})
                assert (page.status_code, "Functory" in page.text) == (200, True)
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(patient(20)) == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_it_lets_a_prometheus_collect_the_metrics_of_all_steps_until_it_is_ended(tmp_path: Path) -> None:
    require("prometheus")
    (tmp_path / "tmp").mkdir()
    command = f"{FEW}from functory.cli.main import main\nsys.exit(main(['demo', '--watch', '--port', '0']))\n"
    with subprocess.Popen(
        [sys.executable, "-c", command],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            lines = iter(running.stdout.readline, "")
            url = next(found[1] for line in lines if (found := re.search(r"(http://\S+)/graph\?", line)))

            def stopped() -> list[str]:
                """The number of stops by guards, as Prometheus knows it."""
                asked = httpx.get(
                    f"{url}/api/v1/query",
                    params={"query": "sum(functory_guard_blocks_total)"},
                    timeout=patient(10),
                )
                return [row["value"][1] for row in asked.json()["data"]["result"]]

            assert wait_for(stopped) == ["1"]
        finally:
            running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait(patient(20)) == 0
    assert list((tmp_path / "tmp").iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_it_says_how_to_get_the_prometheus_that_is_not_there(tmp_path: Path) -> None:
    done = demo(tmp_path, "--watch", PATH=str(tmp_path))
    assert done.returncode == 2
    assert "there is no program prometheus" in done.stderr and "apt-get install prometheus" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_it_says_why_the_prometheus_did_not_start(tmp_path: Path) -> None:
    program = tmp_path / "prometheus"
    program.write_text("#!/bin/sh\necho no room left\nexit 1\n")
    program.chmod(0o755)
    done = demo(tmp_path, "--watch", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 6
    assert "Prometheus did not start" in done.stderr and "no room left" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
