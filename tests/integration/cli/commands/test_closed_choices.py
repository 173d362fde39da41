"""Options with closed choices: each refuses any other word, names its choices, and takes each of them.

A new option is put in one of the two lists: :data:`CLOSED`, or those that take any text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest

from functory.cli import application, command_index, session
from functory.cli.commands.pack import System
from functory.cli.commands.worker import Pool
from functory.cli.main import main
from functory.client.functory import Functory
from functory.engine.access import grants, roles
from functory.engine.agents import call_listing, model_fields
from functory.engine.database.schema.agents import RUN_ENDED, RUN_OPEN
from functory.engine.database.schema.events import EVENT_STATES, SUPPRESSION_REASONS
from functory.engine.database.schema.executions import STATES
from functory.engine.database.schema.memory import MEMORY_KINDS
from functory.engine.database.schema.releases import PROPOSAL_ENDED, PROPOSAL_OPEN
from functory.engine.executions.runs import questions
from functory.triggers.sources.registry import installed_plugins
from tests.support.world import embedded

WORD = "{}"
PASSWORD = "correct horse battery"
BOGUS = "bogus"
ON = '{"type": ["a.b"]}'
OVERLAPS = ("skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all")
KINDS = tuple(installed_plugins())
PERMISSIONS = (
    "functions:describe", "functions:propose", "functions:read", "functions:write", "memory:read", "memory:write",
)  # fmt: skip
TRIGGER = ["trigger", "add", "made", "--on", ON, "--function", "work"]
SCHEDULE = ["schedule", "add", "made", "--every", "1h", "--function", "work"]
WATCH = ["watch", "add", "made", "."]
WEBHOOK = ["webhook", "add", "made", "--secret", "KEY"]
HMAC = [*WEBHOOK, "--auth", "hmac", "--header", "x-signature"]
MODEL = ["--provider-model", "rules.json", "--price-in", "0", "--price-out", "0"]
RANGE = ["--from", "2026-01-01T00:00", "--to", "2026-01-01T02:00"]

# By command and option: the choices, and the command line with the word in its place.
CLOSED: dict[tuple[str, str], tuple[tuple[str, ...], list[str]]] = {
    ("function add", "--permission"): (PERMISSIONS, ["function", "add", "work.py", "--permission", WORD]),
    ("function mark", "mark"): (("good", "bad"), ["function", "mark", "work@1", WORD, "--reason", "x"]),
    ("function log-policy", "policy"): (
        ("full", "summary", "sampled", "off"),
        ["function", "log-policy", "work", WORD],
    ),
    ("trigger suppressed", "--reason"): (
        SUPPRESSION_REASONS,
        ["trigger", "suppressed", "--events", "--reason", WORD],
    ),
    ("trigger resume-suppressed", "--reason"): (
        SUPPRESSION_REASONS,
        ["trigger", "resume-suppressed", "--reason", WORD],
    ),
    ("trigger add", "--singleton"): (("skip", "cancel"), [*TRIGGER, "--singleton", WORD]),
    ("trigger add", "--overlap"): (OVERLAPS, [*TRIGGER, "--overlap", WORD]),
    ("event list", "--state"): (EVENT_STATES, ["event", "list", "--state", WORD]),
    ("schedule add", "--overlap"): (OVERLAPS, [*SCHEDULE, "--overlap", WORD]),
    ("schedule add", "--catch-up"): (("all", "latest", "none"), [*SCHEDULE, "--catch-up", WORD]),
    ("schedule trigger", "--overlap"): (OVERLAPS, ["schedule", "trigger", "nightly", "--overlap", WORD]),
    ("schedule backfill", "--overlap"): (
        OVERLAPS,
        ["schedule", "backfill", "nightly", *RANGE, "--overlap", WORD],
    ),
    ("watch add", "--event"): (("created", "modified", "deleted", "moved"), [*WATCH, "--event", WORD]),
    ("watch add", "--polling"): (("auto", "always", "never"), [*WATCH, "--polling", WORD]),
    ("watch add", "--initial"): (("ignore", "events"), [*WATCH, "--initial", WORD]),
    ("watch table", "--events"): (
        ("insert", "update", "delete"),
        ["watch", "table", "made", "--table", "lost", "--events", WORD],
    ),
    ("webhook add", "--auth"): (
        ("github", "stripe", "slack", "standard", "hmac", "token", "basic"),
        [*WEBHOOK, "--header", "x-signature", "--user", "ada", "--auth", WORD],
    ),
    ("webhook add", "--algorithm"): (("sha256", "sha512", "sha1"), [*HMAC, "--algorithm", WORD]),
    ("webhook add", "--encoding"): (("hex", "base64"), [*HMAC, "--encoding", WORD]),
    ("source add", "kind"): (KINDS, ["source", "add", WORD, "made"]),
    ("source list", "--kind"): (KINDS, ["source", "list", "--kind", WORD]),
    ("source show", "kind"): (KINDS, ["source", "show", WORD, "lost"]),
    ("source pause", "kind"): (KINDS, ["source", "pause", WORD, "lost"]),
    ("source resume", "kind"): (KINDS, ["source", "resume", WORD, "lost"]),
    ("source delete", "kind"): (KINDS, ["source", "delete", WORD, "lost", "--yes"]),
    ("execution list", "--state"): (STATES, ["execution", "list", "--state", WORD]),
    ("execution cancel", "--state"): (
        STATES,
        ["execution", "cancel", "--all", "--dry-run", "--state", WORD],
    ),
    ("execution replay", "--state"): (
        STATES,
        ["execution", "replay", "--all", "--dry-run", "--state", WORD],
    ),
    ("execution retry", "--state"): (STATES, ["execution", "retry", "--all", "--dry-run", "--state", WORD]),
    ("model add", "--adapter"): (model_fields.ADAPTERS, ["model", "add", "made", *MODEL, "--adapter", WORD]),
    ("model set", "--adapter"): (model_fields.ADAPTERS, ["model", "set", "small", "--adapter", WORD]),
    ("llm calls", "--state"): (call_listing.STATES, ["llm", "calls", "--state", WORD]),
    ("llm cost", "--by"): (call_listing.COST_BY, ["llm", "cost", "--by", WORD]),
    ("budget set-quota", "scope"): (
        ("key", "agent", "user"),
        ["budget", "set-quota", WORD, "x", "--usd", "1"],
    ),
    ("budget remove-quota", "scope"): (
        ("key", "agent", "user"),
        ["budget", "remove-quota", WORD, "x", "--yes"],
    ),
    ("agent runs list", "--state"): (
        ("open", *RUN_OPEN, *RUN_ENDED),
        ["agent", "runs", "list", "--state", WORD],
    ),
    ("memory add", "--kind"): (MEMORY_KINDS, ["memory", "add", "invoices", "--kind", WORD]),
    ("memory list", "--kind"): (MEMORY_KINDS, ["memory", "list", "--kind", WORD]),
    ("approval list", "--state"): (questions.STATES, ["approval", "list", "--state", WORD]),
    ("proposal create", "--permission"): (
        PERMISSIONS,
        ["proposal", "create", "other.py", "--tests", "tests.json", "--permission", WORD],
    ),
    ("proposal list", "--state"): (
        ("open", *PROPOSAL_OPEN, *PROPOSAL_ENDED),
        ["proposal", "list", "--state", WORD],
    ),
    ("canary start", "--unit"): (("root", "subject"), ["canary", "start", "work@1", "--unit", WORD]),
    ("gate policy set", "--tests"): (
        ("off", "warn", "required"),
        ["gate", "policy", "set", "made", "--function", "work", "--tests", WORD],
    ),
    ("gate policy set", "--approval"): (
        ("auto", "one", "two", "never"),
        ["gate", "policy", "set", "made", "--function", "work", "--approval", f"acts={WORD}"],
    ),
    ("grant allow", "kind"): (grants.KINDS, ["grant", "allow", "lost", WORD, "x"]),
    ("grant revoke", "kind"): (grants.KINDS, ["grant", "revoke", "lost", WORD, "x"]),
    ("user create", "--role"): (
        roles.ROLES,
        ["user", "create", "made", "--password-stdin", "--role", WORD],
    ),
    ("user create", "--right"): (
        roles.EXTRA,
        ["user", "create", "made", "--password-stdin", "--right", WORD],
    ),
    ("user update", "--role"): (roles.ROLES, ["user", "update", "ada", "--role", WORD]),
    ("user update", "--right"): (roles.EXTRA, ["user", "update", "ada", "--right", WORD]),
    ("token create", "--role"): (roles.ROLES, ["token", "create", "made", "--user", "ada", "--role", WORD]),
    ("token create", "--right"): (roles.EXTRA, ["token", "create", "made", "--user", "ada", "--right", WORD]),
    ("pack import", "system"): (tuple(System), ["pack", "import", WORD, "lost"]),
    ("worker", "--pool"): (tuple(Pool), ["worker", "--pool", WORD]),
    ("doctor", "checks"): (("clock", "secrets"), ["doctor", WORD]),
    ("verify", "--only"): (("I1", "I30"), ["verify", "--only", WORD]),
}
# What takes any text: names and ids, texts, numbers with a unit, times, expressions, addresses and files; and what has
# a language of its own, such as NAME=VALUE. A name that is closed in one command is free only in the commands here.
FREE_NAMES = frozenset({
    "--agent", "--always", "--anchor", "--api-base", "--argument", "--ask-before", "--at", "--author",
    "--batch", "--before", "--can", "--catch-up-window", "--check", "--columns", "--compensate", "--composite",
    "--condition", "--config", "--criteria", "--cron", "--data", "--debounce", "--dedup-key", "--delivery",
    "--dep", "--description", "--end", "--event-type", "--every", "--exclude", "--execution", "--expires",
    "--fallback", "--feedback", "--file", "--flow", "--follow", "--from", "--function", "--guards", "--header",
    "--host",
    "--idempotency", "--ignore", "--import", "--input", "--input-json", "--into", "--jitter", "--keep", "--key",
    "--label", "--lib", "--limit", "--logs", "--max-bytes", "--memo", "--metadata", "--model", "--module",
    "--name", "--note",
    "--older", "--on", "--patience", "--pattern", "--prefix", "--priority", "--provider-model", "--query",
    "--rate", "--rate-limit", "--read", "--requirement", "--root", "--run", "--secret", "--set", "--settle",
    "--share", "--signed", "--since", "--source", "--start", "--subject", "--table", "--target-function",
    "--throttle", "--timestamp-header", "--timezone", "--to", "--tolerance", "--tool", "--trigger",
    "--trigger-function", "--type", "--url", "--user", "--when", "--write", "call", "changes", "event", "files",
    "fields", "file", "folder", "function", "goal", "id", "id_", "key", "memory", "name", "new", "path", "proposal",
    "query", "question", "reference", "root", "run", "text", "token", "type_", "url", "value", "version",
    "what", "which",
})  # fmt: skip
FREE_IN = {
    "--event": {"trigger test"},
    "--reason": {
        "canary hold", "canary promote", "canary rollback", "canary stop", "execution cancel", "execution compensate",
        "execution replay", "execution retry", "function mark", "grant allow", "grant revoke",
    },
    "--tests": {"proposal create"},
}  # fmt: skip
# Commands that go on until they are stopped.
ROLES_OF_PROCESSES = ("worker",)


def options() -> Iterator[tuple[str, str]]:
    """Every command and its options that take words."""
    for entry in command_index.entries():
        for command, made in _below(entry.name, application.load_command(entry)):
            for one in made.params:
                annotation = getattr(getattr(one, "type_descriptor", None), "annotation", None)
                if not getattr(one, "is_flag", False) and annotation not in (bool, int, float):
                    yield command, one.opts[0]


def _below(command: str, made: Any) -> Iterator[tuple[str, Any]]:
    verbs = getattr(made, "commands", None)
    if not verbs:
        yield command, made
    for verb, own in (verbs or {}).items():
        yield from _below(f"{command} {verb}", own)


def said(argv: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command line with a word in its place. Returns its exit status and its error."""
    status = main([one.replace(WORD, word) for one in argv])
    return status, capsys.readouterr().err


def refusal(error: str) -> str:
    """Return why: the choices, without what was perhaps meant."""
    return error.splitlines()[1].split(";")[0]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    """An engine for all command lines, in a project with one of each thing that they name.

    An engine of its own for each choice would be started and stopped hundreds of times.
    """
    folder = tmp_path_factory.mktemp("choices")
    (folder / "work.py").write_text("def work(**given):\n    return given\n")
    (folder / "other.py").write_text("def other(**given):\n    return given\n")
    (folder / "tests.json").write_text('[{"input": {}, "equals": {}}]')
    with embedded(folder) as engine:
        with session.sharing(engine), pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            for argv in (
                ["function", "add", "work.py"],
                ["secret", "set", "KEY"],
                ["user", "create", "ada", "--role", "admin", "--password-stdin"],
                ["schedule", "add", "nightly", "--every", "1h", "--function", "work"],
                ["model", "add", "small", "--adapter", "script", *MODEL],
            ):
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
                assert main(argv) == 0, argv
        yield engine


@pytest.fixture
def here(project: Functory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(project.settings.home.parent)
    with session.sharing(project):
        yield


@pytest.mark.parametrize("option", CLOSED, ids=" ".join)
def test_a_closed_option_refuses_other_words_and_takes_its_choices(
    option: tuple[str, str], here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choices, argv = CLOSED[option]
    refused = 3 if option[0].startswith("source ") and option[1] == "kind" else 2
    status, error = said(argv, BOGUS, capsys)
    assert status == refused, error
    assert [one for one in choices if not re.search(rf"\b{re.escape(one)}\b", error)] == []
    if option[0] in ROLES_OF_PROCESSES:
        return
    for one in choices:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
        status, taken = said(argv, one, capsys)
        # Something else may be missing then, such as the address of a model.
        assert status not in (2, 3) or refusal(taken) != refusal(error), f"{one}: {taken}"


def test_every_option_is_closed_or_free() -> None:
    found = set(options())
    closed_names = {name for _, name in CLOSED}
    unknown = {
        (command, name)
        for command, name in found
        if (command, name) not in CLOSED and name not in FREE_NAMES and command not in FREE_IN.get(name, ())
    }
    assert unknown == set(), "put each into CLOSED or FREE_NAMES"
    assert set(CLOSED) <= found
    assert FREE_NAMES.isdisjoint(closed_names)
    assert {name for _, name in found} >= FREE_NAMES


def test_a_misspelt_choice_is_told(here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean failed?" in said(["execution", "list", "--state", WORD], "faild", capsys)[1]
