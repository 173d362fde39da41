"""Triggers that cannot work, typed at the command line and saved from Python: refused, or saved with a warning."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.engine.settings import Settings
from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

PARSE = """\
def parse(rows: list) -> dict:
    return {"total": len(rows)}
"""
BILL = """\
def bill(total: int, note: str = ""):
    return total
"""


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    (tmp_path / "parse.py").write_text(PARSE)
    (tmp_path / "bill.py").write_text(BILL)
    shell = Shell(tmp_path, database=migrated_file)
    shell.run("function", "add", "parse.py")
    shell.run("function", "add", "bill.py")
    return shell


def add(shell: Shell, *options: str, status: int = 0, on: str = '{"type": ["execution.succeeded"]}') -> Any:
    return shell.run("trigger", "add", "charge", "--on", on, "--function", "bill", *options, status=status)


TOTAL = ("--input", '{"total": "{{ data.output.total }}"}')


def test_the_data_are_read_under_both_names(shell: Shell) -> None:
    assert add(shell, *TOTAL).stderr == ""
    assert add(shell, "--input", '{"total": "{{ event.data.output.total }}"}').stderr == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--input", '{"note": "x"}'), "the function bill needs total"),
        (("--input", '{"total": 1, "nte": "x"}'), "did you mean note?"),
        (("--input", '{"total": "many"}'), '"many" is not of type "integer"'),
        (("--input", '{"total": "{{ data.outptu.total }}"}'), "did you mean output?"),
        ((*TOTAL, "--when", "event.dta.x == 1"), "did you mean data?"),
        ((*TOTAL, "--idempotency", "event.dta.x"), "the key of idempotency reads event.dta.x"),
    ],
)
def test_what_can_never_work_is_refused(shell: Shell, options: tuple[str, ...], said: str) -> None:
    assert said in add(shell, *options, status=2).stderr
    assert shell.json("trigger", "list") == []


def test_an_unknown_field_of_the_envelope_is_refused(shell: Shell) -> None:
    assert "did you mean type?" in add(shell, *TOTAL, on='{"typ": ["order.created"]}', status=2).stderr


def test_what_may_be_a_mistake_is_saved_with_a_warning(shell: Shell) -> None:
    done = add(shell, *TOTAL, on='{"type": ["function.updatd"]}')
    assert "warning: the pattern lists the type function.updatd" in done.stderr
    assert "did you mean function.updated?" in done.stderr
    shell.run("event", "emit", "order.created")
    assert "did you mean order.created?" in add(shell, *TOTAL, on='{"type": ["order.creatd"]}').stderr
    (said,) = shell.json("trigger", "add", "x", "--on", '{"type": ["a"]}', "--function", "bil")["warnings"]
    assert "the function bil does not exist yet" in said
    assert "did you mean bill?" in said


def test_a_client_gets_the_warnings_and_the_row_has_them(tmp_path: Path, migrated_file: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "functory.db").write_bytes(migrated_file.read_bytes())
    with Functory(Settings(home=home)) as engine:
        with pytest.warns(UserWarning, match="trigger t: the function bill does not exist yet"):
            row = engine.register_trigger("t", on={"type": ["a"]}, function="bill")
        assert len(row["warnings"]) == 1
        assert "warnings" not in engine.triggers.get("t")
        engine.functions.save(BILL)
        with pytest.raises(Invalid, match="needs total"):
            engine.register_trigger("t", on={"type": ["a"]}, function="bill", input={})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert engine.register_trigger("u", on={"type": ["a"]}, function="bill", input="{{ data }}")


def test_a_failed_match_is_shown_by_status_show_and_why(shell: Shell) -> None:
    add(shell, "--input", '{"total": "{{ data.total }}"}', on='{"type": ["order.paid"]}')
    said = shell.run("event", "emit", "order.paid", "--data", '{"totl": 5}', "--wait", status=1)
    assert "the match of trigger charge: input_error" in said.stderr
    event = shell.json("event", "list", "--type", "order.paid")[0]["id"]
    (failed,) = shell.json("status")["failed_matches"]
    assert (failed["trigger"], failed["count"], failed["reason"]) == ("charge", 1, "input_error")
    assert "charge  1, last at" in shell.out("status")
    assert shell.json("trigger", "show", "charge")["failure"]["event_id"] == event
    assert "has no member total" in shell.out("trigger", "show", "charge")
    assert "has no member total" in shell.out("event", "why", event)
    assert "functory_" not in shell.out("status")


def test_the_exit_status_of_an_awaited_event_shows_a_failed_execution(shell: Shell) -> None:
    (shell.folder / "charge.py").write_text("def charge(total: int):\n    return 1 // total\n")
    shell.run("function", "add", "charge.py")
    shell.run(
        "trigger", "add", "pay", "--function", "charge", "--on", '{"type": ["order.paid"]}',
        "--input", '{"total": "{{ data.total }}"}', "--idempotency", "data.total",
    )  # fmt: skip
    paid = ("event", "emit", "order.paid", "--data")
    assert "succeeded" in shell.out(*paid, '{"total": 5}', "--wait")
    assert "suppressed: idempotent" in shell.out(*paid, '{"total": 5}', "--wait"), "that is no failure"
    failed = shell.run(*paid, '{"total": 0}', "--wait", status=1)
    assert "charge v1 failed" in failed.stdout, "the tree is printed all the same"
    assert "not all that the event caused has succeeded\n  charge v1 failed\n" in failed.stderr
    assert shell.run(*paid, '{"total": 0}', status=0).stderr.count("succeeded") == 0


def test_a_version_that_breaks_stored_triggers_names_them(shell: Shell) -> None:
    add(shell, *TOTAL)
    (shell.folder / "bill.py").write_text("def bill(amount: int, note: str = ''):\n    return amount\n")
    done = shell.run("function", "add", "bill.py")
    assert "warning: the trigger charge fails from now on: the function bill needs amount" in done.stderr
    assert "the trigger charge fails from now on: the function bill does not take total" in done.stderr
    assert "the trigger charge" not in shell.run("function", "rollback", "bill").stderr
    assert "the trigger charge fails" in shell.run("function", "activate", "bill@2", "--force").stderr
    (shell.folder / "bill.py").write_text("def bill(total: int, more: str = ''):\n    return total\n")
    assert "the trigger charge" not in shell.run("function", "add", "bill.py").stderr


def test_a_trigger_that_takes_its_own_events_is_no_cycle_until_its_guard_lets_them_through(
    shell: Shell,
) -> None:
    own = '{"type": ["execution.succeeded"], "subject": ["bill"]}'
    said = add(shell, "--input", '{"total": 1}', on=own).stderr
    assert "warning: the pattern takes the events of bill, which the trigger runs itself" in said
    drawn = shell.out("trigger", "graph")
    assert "execution.succeeded (bill) → charge (itself: the guard own_event stops it)\nno cycles" in drawn
    guards = '{"allow_self": true, "acknowledge_cycle": 1}'
    assert add(shell, "--input", '{"total": 1}', "--guards", guards, on=own).stderr == ""
    drawn = shell.out("trigger", "graph")
    assert "execution.succeeded (bill) → charge\ncycle  charge → bill" in drawn and "no cycles" not in drawn
