"""The sandbox's benchmark: every way does the work, the slow and the missing ones too, and its figures add up."""

import json
import sys

import pytest

from benchmarks import sandbox
from benchmarks.forkserver import ForkServer


def test_every_way_is_measured_beside_a_bare_fork(capsys):
    rows = sandbox.run(tiers=["none"], calls=2)["rows"]
    assert {(row["way"], row["what"]) for row in rows if "skipped" not in row} >= {
        *(("no tier", what) for what in sandbox._MEASUREMENTS),
        ("bare fork", "forked"),
        ("python -I", "forked"),
    }
    for row in rows:
        if "skipped" not in row:
            assert 0 < row["p50_ms"] <= row["p99_ms"]
            assert ("of_bare_fork" in row) == (row["what"] not in ("start", "reuse"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rows)


def test_a_tier_that_is_not_to_be_had_is_skipped_with_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "command", lambda argv: [sys.executable, "-c", "print('no Landlock')"])
    row = next(row for row in sandbox.run(quiet=True, tiers=["C"], calls=1)["rows"] if row["way"] == "tier C")
    assert row["skipped"] == "no Landlock"
    assert capsys.readouterr().out == ""


def test_the_command_prints_one_object(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sandbox", "--tier", "none", "--calls", "1", "--json"])
    # The measurements are those of the tests above.
    monkeypatch.setattr(sandbox, "run", lambda **options: {"rows": [options]})
    assert sandbox.main() == 0
    asked = {"quiet": True, "tiers": ["none"], "calls": 1}
    assert json.loads(capsys.readouterr().out) == {"benchmark": "sandbox", "rows": [asked]}


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_the_peer_returns_what_the_function_returns(size):
    server = ForkServer()
    try:
        for _ in range(2):
            assert (
                server.call("def f(text):\n    return text + '!'", "f", {"text": "x" * size})
                == "x" * size + "!"
            )
    finally:
        server.close()
