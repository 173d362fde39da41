"""Secrets that running code writes anywhere, in every spelling: none is in a row, a log line, a metric or on stderr."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest

from functory.engine.database import schema
from functory.engine.functions.state import State
from functory.engine.maintenance.backup import pg_dump
from functory.engine.telemetry import metrics
from functory.workers.execution.executor import Executor
from functory.workers.sandbox.runner import Runner
from tests.support.secret_spellings import IMPORTS, SPELLINGS, pieces, spelled
from tests.support.world import World, lines

pytest_plugins = ["tests.support.world"]

# No secret of anyone: 40 characters with all that encodings change, a key file of lines, a document, a number, a URL.
SECRETS = {
    "TOKEN": "p@ss/w0rd+\"it's\" <né&=ü>\\x%#~!sk_live_4f9A8b7",
    "KEY_FILE": "-----BEGIN EC KEY-----\n"
    + "".join(f"{n:02}qVf7Xw3zT{n:02}mYb+{n:02}/kRjLp5Hs{n:02}uNcQd8Ge\n" for n in range(8))
    + "-----END EC KEY-----\n",
    "DOCUMENT": json.dumps({"client": "svc", "client_secret": "Gk3/xPq9+Wm2&Zt7'Lb5Yv8", "pin": 7391846205}),
    "NUMBER": "0049281736450",
    "ADDRESS": "postgresql://app:q7%2FRt9xK2mVw@db.internal:5432/orders",
}  # fmt: skip
# What code takes out of them.
TAKEN = {
    "TOKEN": "s",
    "KEY_FILE": "s",
    "DOCUMENT": "json.loads(s)['client_secret']",
    "NUMBER": "str(int(s))",
    "ADDRESS": "urllib.parse.unquote(urllib.parse.urlsplit(s).password)",
}
PIECES = {
    "TOKEN": pieces(SECRETS["TOKEN"]),
    "KEY_FILE": pieces(SECRETS["KEY_FILE"]),
    "DOCUMENT": pieces("Gk3/xPq9+Wm2&Zt7'Lb5Yv8") | {"7391846205"},
    "NUMBER": pieces(SECRETS["NUMBER"]) | {"49281736450"},
    "ADDRESS": pieces("q7/Rt9xK2mVw") | {"q7%2FRt9xK2mVw"},
}

SOURCE = lines(
    IMPORTS,
    "from functory import call, emit, functions, log, progress, secret, state, submit, Refused",
    "import sys",
    "def leak(name):",
    "    whole = secret(name)",
    f"    TAKEN = {TAKEN!r}",
    "    s = eval(TAKEN[name], {**globals(), 's': whole})",
    f"    SPELLINGS = {SPELLINGS!r}",
    "    spelled = {n: eval(e, {**globals(), 's': s}) for n, e in SPELLINGS.items()}",
    "    spelled['whole'] = whole",
    "    log('begins', whole=whole)",
    "    refused = 0",
    "    for n, text in spelled.items():",
    "        print(n, text)",
    "        print(n, text, file=sys.stderr)",
    "        log(n + ' ' + text, field=text)",
    "        log.warning(text)",
    "        emit('leaked', {'list': [text], text: 1}, subject=(n + ' ' + text)[:200])",
    "        noted(text)",
    "        for write in (",
    "            lambda: call('noted', text),",
    "            lambda: submit('noted', [{'deep': text}]),",
    "            lambda: call('noted', text, durable=True),",
    "            lambda: state.set('key', {'value': text}),",
    "            lambda: functions.save('def kept():\\n    return ' + repr(text) + '\\n'),",
    "            lambda: functions.save('def kept():\\n    return 1\\n', metadata={'note': text}),",
    "            lambda: functions.update('noted', metadata={'note': text}),",
    "        ):",
    "            try:",
    "                write()",
    "            except Refused:",
    "                refused += 1",
    "        try:",
    "            state.set(text[:255], 1)",
    "            emit('t.' + text, None)",
    "        except Exception:",
    "            pass",
    "    progress(1, 2, whole)",
    "    # Over the border of a row, and over borders of chunks.",
    "    sys.stdout.write('x' * 16380 + s + '\\n')",
    "    for line in s.split('\\n'):",
    "        print('>', line)",
    "    for character in s:",
    "        sys.stdout.write(character)",
    "        sys.stdout.flush()",
    "    open('/tmp/' + s.replace('/', '')[:80], 'w').close()",
    "    result = {'texts': spelled, 'list': list(spelled.values()), 'keys': {v: 1 for v in spelled.values()},",
    "              'refused': refused, 'of': len(spelled), 'number': int(whole) if name == 'NUMBER' else None}",
    "    return result",
    "def noted(text): return text",
)  # fmt: skip

# Each spelling is the text, the note and the type of one error of a chain; the text of the last one has all of them.
FAILING = lines(
    IMPORTS,
    "from functory import secret",
    "class Wrong(Exception): pass",
    "def fail(name):",
    "    whole = secret(name)",
    f"    s = eval({TAKEN!r}[name], {{**globals(), 's': whole}})",
    f"    texts = [eval(e, {{**globals(), 's': s}}) for e in {SPELLINGS!r}.values()]",
    "    last = KeyError(whole)",
    "    for text in texts:",
    "        error = type(text[:60].strip() or 'Wrong', (Wrong,), {})(text)",
    "        error.add_note('note: ' + text)",
    "        error.__cause__ = last",
    "        last = error",
    "    raise Wrong('\\n'.join(texts)) from last",
)


@pytest.fixture
def executor(world: World) -> Iterator[Executor]:
    with Runner.from_settings(world.settings) as runner:
        made = Executor(world.database, world.settings, runner, "worker-of-test")
        yield made
        made.close()


def strings(value: Any) -> Iterator[str]:
    """All texts in a value, and its numbers as texts."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from strings(key)
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif value is not None:
        yield str(value)


def found_in(texts: list[str], secret: str) -> set[tuple[str, str]]:
    """The pieces of a secret in texts, each with what surrounds it."""
    found = set()
    for length in {len(piece) for piece in PIECES[secret]}:
        for text in texts:
            for at in range(len(text) - length + 1):
                if text[at : at + length] in PIECES[secret]:
                    found.add((text[at : at + length], text[max(0, at - 40) : at + 60]))
    return found


def dumps(world: World) -> list[tuple[str, bytes]]:
    """Everything that is stored, as an attacker or a backup would copy it: the files, or a dump by pg_dump."""
    if world.dialect == "sqlite":
        files = sorted(Path(world.url.removeprefix("sqlite:///")).parent.glob("*.db*"))
        # What was written last is in the log of the database.
        assert any(file.name.endswith("-wal") for file in files), files
        return [("the files", b"".join(file.read_bytes() for file in files))]
    program, _ = pg_dump.find("pg_dump", 0)
    content = bytearray()
    pg_dump.dump(world.database, program, ["--format=plain"], content.extend)
    return [("pg_dump", bytes(content))]


def binary_values(dump: bytes) -> list[str]:
    """The values that a dump writes as hexadecimal digits."""
    return [
        bytes.fromhex(found[1].decode()).decode("latin-1")
        for found in re.finditer(rb"\\\\x((?:[0-9a-f]{2})+)", dump)
    ]


def _run(world: World, executor: Executor, function: str, given: dict[str, Any]) -> dict[str, Any]:
    row = world.executions.start(function, given)
    executor.execute([row["id"]])
    return world.executions.get(row["id"])


@pytest.mark.parametrize("secret", SECRETS)
def test_no_spelling_of_a_secret_reaches_a_row_a_metric_or_a_log(
    world: World,
    executor: Executor,
    secret: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    caplog.set_level(logging.DEBUG)
    world.secrets.set(secret, SECRETS[secret])
    limits = {"calls": 5000, "log_bytes": 4_000_000, "timeout": 60, "cpu": 50}
    noted = SOURCE[SOURCE.index("def noted") :]
    world.functions.save(noted, name="noted")
    world.functions.save(
        SOURCE.removesuffix(noted),
        name="leak",
        secrets=[secret],
        dependencies=["noted"],
        permissions=["functions:read", "functions:write"],
        limits=limits,
    )
    world.functions.save(FAILING, name="fail", secrets=[secret], limits={"retries": 0})
    row = _run(world, executor, "leak", {"name": secret})
    assert row["state"] == "succeeded", row["error"]
    # A spelling that is a piece of a short secret is not known; all others were refused everywhere.
    assert row["result"]["refused"] >= 7 * row["result"]["of"] * 0.95, (
        row["result"]["refused"],
        row["result"]["of"] * 7,
    )
    failed = _run(world, executor, "fail", {"name": secret})
    assert (failed["state"], failed["error"]["type"]) == ("failed", "Wrong")
    for part in ("message", "traceback"):
        assert failed["error"][part].count("***") >= len(SPELLINGS) / 2, failed["error"][part]

    for table in schema.metadata.sorted_tables:
        for stored in world.rows(table):
            # Its source says what the secret is taken out of, and nothing of the secret itself.
            assert found_in(list(strings(dict(stored))), secret) == set(), table.name
    assert found_in([generate_latest(metrics.registry).decode()], secret) == set()
    out, err = capfd.readouterr()
    assert found_in([out, err, caplog.text], secret) == set()
    for name, content in dumps(world):
        assert len(content) > 100_000 and b"glued to others" in content, name
        assert found_in([content.decode("utf-8", "replace"), *binary_values(content)], secret) == set(), name


def test_what_was_replaced_in_an_event_is_said_in_the_log(world: World, executor: Executor) -> None:
    world.secrets.set("TOKEN", SECRETS["TOKEN"])
    world.functions.save(
        "def tell():\n    from functory import emit, secret\n    emit('told', {'key': secret('TOKEN')})\n",
        secrets=["TOKEN"],
    )
    row = _run(world, executor, "tell", {})
    (event,) = world.rows(schema.event, schema.event.c.type == "told")
    assert event["data"] == {"key": "***"}
    (line,) = world.rows(schema.log, schema.log.c.execution_id == row["id"])
    assert line["text"] == "the data of the event told held the secret TOKEN, which was replaced by ***"


def test_a_refused_call_says_how_the_child_gets_the_secret(world: World, executor: Executor) -> None:
    world.secrets.set("TOKEN", SECRETS["TOKEN"])
    world.function("child")
    world.functions.save(
        "def parent():\n    from functory import call, secret\n    call('child', header='Bearer ' + secret('TOKEN'))\n",
        secrets=["TOKEN"],
    )
    row = _run(world, executor, "parent", {})
    assert row["error"]["message"] == (
        "the input of another execution cannot hold the secret TOKEN\n"
        "inputs are stored as readable text\n"
        'try: read it in that function with secret("TOKEN"), which declares secrets=["TOKEN"]'
    )
    assert world.executions.list(function="child") == []


def test_spellings_are_as_many_as_promised() -> None:
    assert len(spelled(SECRETS["TOKEN"])) >= 75


def test_a_secret_is_removed_before_output_is_cut_into_rows(world: World, executor: Executor) -> None:
    """Neither half of it would be recognised."""
    world.secrets.set("SHORT", "hT7#kq2Zw9")
    world.functions.save(
        "def cut():\n    from functory import secret\n    print('x' * 16_379 + secret('SHORT') + 'y')\n",
        secrets=["SHORT"],
    )
    row = _run(world, executor, "cut", {})
    stored = "".join(line["text"] for line in world.rows(schema.log, schema.log.c.execution_id == row["id"]))
    assert stored == "x" * 16_379 + "***y"


def test_a_defect_of_the_worker_tells_no_secret(
    world: World, executor: Executor, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The text of an error inside of the worker quotes what it was working on."""

    def broken(claim: Any, outcome: Any, redact: Any) -> Any:
        raise ValueError(f"cannot be stored: {outcome.result!r}")

    monkeypatch.setattr("functory.workers.execution.executor.attempt_result", broken)
    world.secrets.set("TOKEN", SECRETS["TOKEN"])
    world.functions.save(
        "def tell():\n    from functory import secret\n    return secret('TOKEN')\n",
        secrets=["TOKEN"],
        limits={"retries": 0},
    )
    row = _run(world, executor, "tell", {})
    assert row["error"]["message"].startswith("cannot be stored: ") and "***" in row["error"]["message"]
    out, err = capfd.readouterr()
    assert "execution failed by a defect of the worker" in out + err
    assert "in broken" in out + err
    for table in schema.metadata.sorted_tables:
        assert found_in(list(strings([dict(stored) for stored in world.rows(table)])), "TOKEN") == set(), (
            table.name
        )
    assert found_in([out, err], "TOKEN") == set()


def test_a_defect_of_a_request_tells_no_secret(
    world: World, executor: Executor, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(state: Any, function: str, key: str) -> Any:
        raise ValueError(f"no key {key}")

    monkeypatch.setattr(State, "get", broken)
    world.secrets.set("TOKEN", SECRETS["TOKEN"])
    world.functions.save(
        "def tell():\n    from functory import secret, state\n    state.get(secret('TOKEN'))\n",
        secrets=["TOKEN"],
        limits={"retries": 0},
    )
    row = _run(world, executor, "tell", {})
    assert "the engine could not answer" in row["error"]["message"]
    out, err = capfd.readouterr()
    assert "host function failed" in out + err and "no key ***" in out + err
    assert found_in([out, err, *strings(row)], "TOKEN") == set()
