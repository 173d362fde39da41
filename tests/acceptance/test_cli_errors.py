"""Bad input on the command line: the exit status of each class of errors, and what is said about it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_shell import Shell

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of an installation that has one function, parse."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "parse.py").write_text("def parse(text: str) -> int:\n    return int(text)\n")
    Shell(folder).run("function", "add", "parse.py")
    return folder


@pytest.fixture
def run(tmp_path: Path, home: Path) -> Run:
    """Runs a command line in a copy of it; gives exit status and stderr, and expects no answer on stdout."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    shell = Shell(tmp_path)

    def command(*arguments: str, answers: bool = False, **settings: str) -> tuple[int, str]:
        shell.environment |= {f"FUNCTORY_{name}": value for name, value in settings.items()}
        done = shell.run(*arguments, status=None)
        assert answers or not done.stdout, done.stdout
        return done.returncode, done.stderr

    return command


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def a(:\n", ["the source has a syntax error", "line 1", "^"]),
        ("def a(): pass\ndef b(): pass\n", ["several functions", "a (line 1), b (line 2)"]),
        ("x = 1\n", ["holds no function"]),
        (
            "def größe(): pass\n",
            ["'größe' is not a function name", "characters from a to z and A to Z, digits and _"],
        ),
        ("def call(): pass\n", ["the name call is reserved"]),
        ("def a(): pass\nprint(1)\n", ["does something at its top level", "line 2"]),
    ],
)
def test_a_wrong_source_is_refused_with_its_place(
    run: Run, tmp_path: Path, source: str, said: list[str]
) -> None:
    (tmp_path / "wrong.py").write_text(source)
    status, error = run("function", "add", "wrong.py")
    assert status == 2 and error.count("error: ") == 1
    assert all(words in error for words in said), error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["function", "add", "nofile.py"], "nofile.py cannot be read"),
        (["function", "add", "parse.py", "--name", "other"], "the source defines parse, not other"),
        (["function", "add", "parse.py", "--timeout", "-1"], "invalid value for '--timeout'"),
        (["function", "add", "parse.py", "--pattern", "low=(?P<a"], "the output pattern low is wrong"),
        (["function", "add", "parse.py", "--permission", "all"], "unknown permissions: all"),
        (["function", "add", "parse.py", "--metadata", "team"], "--metadata takes name=value"),
        (["function", "add", "parse.py", "--dep", "no such"], "does not name a dependency"),
        (["trigger", "add", "t", "--function", "parse"], "the trigger has no pattern"),
        (["trigger", "add", "t", "--on", "{bad", "--function", "parse"], "--on is not JSON"),
        (
            ["trigger", "add", "t", "--on", '{"type": "a"}', "--function", "parse"],
            'the pattern is wrong at "type"',
        ),
        (["trigger", "add", "t", "--on", '{"type": ["a"]}'], "the trigger has no 'function'"),
        (
            ["trigger", "add", "t", "--on", '{"type": ["a"]}', "--function", "p", "--when", "data.x <"],
            "not valid CEL",
        ),
        (
            [
                "trigger",
                "add",
                "t",
                "--on",
                '{"type": ["a"]}',
                "--function",
                "p",
                "--input",
                '{"a": "{{ event."}',
            ],
            "template",
        ),
        (
            [
                "trigger",
                "add",
                "t",
                "--on",
                '{"type": ["a"]}',
                "--function",
                "p",
                "--guards",
                '{"max_depth": 0}',
            ],
            "wrong guard max_depth",
        ),
        (["trigger", "add", "a b", "--on", '{"type": ["a"]}', "--function", "p"], "is not a trigger name"),
        (["trigger", "add", "t", "--file", "parse.py"], "the trigger file is not JSON"),
        (
            ["schedule", "add", "s", "--every", "1"],
            "the number has no unit\n  try: 1s for seconds, 1m for minutes",
        ),
        (["schedule", "add", "s", "--every", "soon"], "numbers with units (ms, s, m, h, d, w)"),
        (["db", "prune", "--older", "30", "--dry-run"], "30d for days"),
        (["webhook", "add", "w", "--auth", "githb"], "is none of"),
        (["webhook", "add", "w", "--auth", "githb"], "did you mean github?"),
        (["trigger", "add", "größe", "--on", '{"type": ["a"]}', "--function", "p"], "is not a trigger name"),
        (["event", "emit", "function.created"], "the event type function.created is reserved"),
        (["event", "emit", "bad type"], "wrong event type"),
        (["event", "emit", "a.b", "--data", "NaN"], "--data is not JSON"),
        (["secret", "delete", "X"], "not confirmed"),
        (["function", "diff", "parse"], "missing argument 'A'"),
        (["event", "list", "-n", "5000"], "invalid value"),
    ],
)
def test_what_cannot_be_understood_ends_with_2(run: Run, arguments: list[str], said: str) -> None:
    status, error = run(*arguments)
    assert status == 2 and "\nerror: " in f"\n{error}", error
    assert said in error


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-i", "txt=1"], "'txt' was unexpected"),
        ([], '"text" is a required property'),
        (["--input-json", '{"text": 5}'], 'text: 5 is not of type "string"'),
        (["--input-json", "[1]"], "must be a JSON object"),
        (["--input-json", "{"], "--input-json is not JSON"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_before_anything_runs(
    run: Run, options: list[str], said: str
) -> None:
    status, error = run("run", "parse", *options)
    assert status == 2 and said in error
    assert run("execution", "list")[0] == 0, "nothing was started"


def test_a_payload_over_the_limit_is_refused_with_both_sizes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "big.json").write_text(json.dumps({"text": "x" * 1_048_577}))
    for command in (["event", "emit", "big.thing", "--data"], ["run", "parse", "--input-json"]):
        status, error = run(*command, "@big.json")
        assert status == 2 and "is too large" in error and "1,048,576" in error


MISSING = "01998c5e-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "missing"],
        ["run", "parse@9", "-i", "text=1"],
        ["function", "show", "missing"],
        ["function", "delete", "missing", "--yes"],
        ["function", "activate", "parse", "9"],
        ["function", "diff", "parse", "1", "9"],
        ["trigger", "show", "missing"],
        ["trigger", "pause", "missing"],
        ["event", "show", MISSING],
        ["event", "release", MISSING],
        ["event", "why", "not-an-id"],
        *(
            ["execution", verb, MISSING]
            for verb in ("show", "logs", "spans", "tree", "why", "wait", "cancel", "replay", "retry")
        ),
        ["execution", "show", "not-an-id"],
        ["secret", "delete", "MISSING", "--yes"],
        ["state", "get", "parse", "nothing"],
        ["state", "set", "missing", "key", "1"],
    ],
    ids=" ".join,
)
def test_what_does_not_exist_ends_with_3(run: Run, arguments: list[str]) -> None:
    status, error = run(*arguments)
    assert status == 3 and "\nerror: " in f"\n{error}", error


def test_a_conflict_ends_with_5(run: Run) -> None:
    status, error = run("function", "add", "parse.py", "--expected-version", "7")
    assert status == 5 and "you expected version 7, active is 1" in error
    assert run("function", "rollback", "parse")[0] == 5


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("POLL_SECONDS", "soon", "FUNCTORY_POLL_SECONDS: it must be a number"),
        ("POLL_SECONDS", "", "FUNCTORY_POLL_SECONDS: it is empty"),
        ("DATABASE_URL", "", "FUNCTORY_DATABASE_URL: it is empty"),
        ("MIN_TIER", "D", "FUNCTORY_MIN_TIER: it must be 'A', 'B' or 'C'"),
        ("PRIVATE_NETWORKS", "10.0.0.0/8", "FUNCTORY_PRIVATE_NETWORKS must be a list in JSON"),
        ("PACKAGES_DENY", "", "FUNCTORY_PACKAGES_DENY must be a list in JSON; it is empty"),
        ("DATABASE_URL", "mysql://x", "unknown database 'mysql'"),
        ("BROKER_URL", "x", "FUNCTORY_BROKER_URL: it is not a URL"),
        ("NAMESPACE", "A B", "FUNCTORY_NAMESPACE"),
        ("CONFIG", "/nowhere/functory.toml", "settings file /nowhere/functory.toml not found"),
        ("LEASE_SECONDS", "1", "at most half of lease_seconds"),
    ],
)
def test_bad_settings_end_with_2_and_name_the_setting(run: Run, name: str, value: str, said: str) -> None:
    for command in (["status"], ["config"], ["db", "status"], ["function", "list"]):
        status, error = run(*command, **{name: value})
        assert status == 2 and said in error, error
    assert run("doctor", answers=True)[0] == 1


@pytest.mark.parametrize(
    "command", [["function", "list"], ["status"], ["db", "upgrade"], ["db", "status"]], ids=" ".join
)
def test_a_database_that_is_away_ends_with_6_and_no_password_is_shown(run: Run, command: list[str]) -> None:
    status, error = run(*command, DATABASE_URL="postgresql://ada:s3cret@127.0.0.1:1/x")
    assert status == 6 and "cannot be used" in error and "FUNCTORY_DATABASE_URL" in error
    assert "s3cret" not in error and "Traceback" not in error


def test_status_and_doctor_report_a_broker_that_is_away(run: Run, tmp_path: Path) -> None:
    broker = "redis://:s3cret@127.0.0.1:1/0"
    status, error = run("status", DATABASE_URL=f"sqlite:///{tmp_path}/client.db", BROKER_URL=broker)
    assert status == 5 and "functory db upgrade" in error
    assert run("db", "upgrade", answers=True)[0] == 0
    assert run("status", answers=True)[0] == 6
    assert run("doctor", answers=True)[0] == 1


def test_a_home_that_cannot_be_made_is_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in (["function", "add", "parse.py"], ["db", "upgrade"]):
        status, error = run(*command, HOME=str(tmp_path / "file" / "home"))
        assert status == 2 and "cannot be made" in error and "FUNCTORY_HOME" in error
