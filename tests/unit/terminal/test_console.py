"""Answers: tabs in a pipe, JSON on request, ids alone with -q, and nothing that a terminal would obey."""

import json
import re
from datetime import UTC, datetime

import pytest

from functory.engine.serialization.control_characters import escape_control_characters
from functory.engine.setting_display import mask_url
from functory.terminal import console, errors, tables
from functory.terminal.console import CommandOutput

ROWS = [
    {"id": "a", "name": "one\ttab\nline", "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "done": True},
    {"id": "b", "name": None, "at": None, "done": False},
]
COLUMNS = {"id": "ID", "name": "NAME", "at": "AT", "done": "DONE"}


def test_in_a_pipe_a_table_is_one_line_a_row_with_tabs_between_the_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    CommandOutput().table(ROWS, COLUMNS)
    assert capsys.readouterr().out == "a\tone tab line\t2026-01-02T03:04:05Z\tyes\nb\t\t\tno\n"


def test_json_keeps_the_values_and_writes_times_in_iso_8601(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(json=True).table(ROWS, COLUMNS)
    assert json.loads(capsys.readouterr().out)[0]["at"] == "2026-01-02T03:04:05.000000Z"


def test_an_empty_table_is_an_empty_array_and_an_empty_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(json=True).table([], COLUMNS)
    assert capsys.readouterr().out == "[]\n"
    CommandOutput().table([], COLUMNS)
    assert capsys.readouterr().out == ""


def test_quiet_prints_the_key_of_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(quiet=True).table(ROWS, COLUMNS)
    assert capsys.readouterr().out == "a\nb\n"


def test_a_terminal_gets_a_table_whose_cells_cannot_command_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = CommandOutput()
    out.is_terminal = True
    out.table([{"id": "a", "name": "\x1b]0;owned\x07[bold]x"}], {"id": "ID", "name": "NAME"})
    said = capsys.readouterr().out
    assert "ID" in said and "\\x1b]0;owned\\x07[bold]x" in said
    assert "\x1b]" not in said


LONG = "x" * 60
TIME = "2026-01-02 03:04:05"
ID = "01a218de-6a8b-7449-a073-1e388ce5594c"


@pytest.mark.parametrize(
    ("columns", "copied", "terminal", "widths"),
    [
        pytest.param([["NAME", "a"], ["ON", "b"]], [True, False], 100, [4, 2], id="everything fits"),
        pytest.param([["NAME", LONG], ["ON", LONG]], [True, False], 100, [60, 36], id="a text before a name"),
        pytest.param([["ID", ID], ["ON", "word " * 9]], [True, False], 56, [36, 16], id="an id stays whole"),
        pytest.param(
            [["LAST", TIME], ["ON", "word " * 30]], [False, False], 44, [19, 21], id="a time stays whole"
        ),
        pytest.param(
            [["LAST", TIME], ["ON", LONG]], [False, False], 34, [14, 16], id="a time wraps at its space"
        ),
        pytest.param(
            [["NAME", LONG], ["VERSION", "1"], ["LAST", TIME], ["FUNCTION", LONG], ["ON", LONG]],
            [True, False, False, False, False],
            119,
            [60, 7, 10, 16, 16],
            id="a name is never folded",
        ),
        pytest.param([["ID", ID], ["ON", "word " * 9]], [True, False], 40, None, id="a terminal too narrow"),
    ],
)
def test_the_columns_of_a_table_share_the_terminal(
    columns: list[list[str]], copied: list[bool], terminal: int, widths: list[int] | None
) -> None:
    assert tables.column_widths(columns, copied, terminal) == widths


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_word_of_a_table_is_broken_on_a_narrow_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    row = {
        "id": ID,
        "event_id": ID,
        "function": "reconcile_supplier_invoices",
        "state": "succeeded",
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "error": "the supplier's address cannot be read from the third page of the document",
    }
    CommandOutput().table([row, row | {"error": None}], {name: name.upper() for name in row})
    said = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    words = said.split()
    assert words.count(console.short_ids.short(ID)) == 4
    assert words.count("reconcile_supplier_invoices") == 2 and words.count("succeeded") == 2
    assert {*row["error"].split()} <= {*words}
    assert max(map(len, said.splitlines())) <= width


def test_commands_in_hints_have_short_ids_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = console.short_ids.short(ID)
    said = f"more: functory execution list --before {ID}; event {ID}"
    console.note(said)
    errors.print_message("what", ID, f"functory execution show {ID}")
    assert capsys.readouterr().err.count(ID) == 4
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    console.note(said)
    errors.print_message("what", ID, f"functory execution show {ID}")
    assert capsys.readouterr().err == (
        f"more: functory execution list --before {short}; event {ID}\nerror: what\n  {ID}\n"
        f"  try: functory execution show {short}\n"
    )


def test_control_characters_are_made_visible_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert escape_control_characters("a\x1b[31mb\x9bc\x7f\td\n") == "a\\x1b[31mb\\x9bc\\x7f\td\n"
    console.note("\x1b[2J")
    errors.print_message("what\x1b", "why\x1b", "try\x1b")
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (0.0000004, "0 µs"),
        (0.0005, "500 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1 s"),
        (1.5, "1.5 s"),
        (119, "119 s"),
        (300, "5 min"),
        (7200, "2.0 h"),
    ],
)
def test_durations_have_the_unit_that_fits(seconds: float | None, shown: str) -> None:
    assert console.format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://ada:s3cret@db:5432/x", "postgresql+psycopg://ada:***@db:5432/x"),
        ("amqp://ada:p@ss/w@rd@mq//", "amqp://ada:***@mq//"),
        ("redis://:s3cret@host:6379/0", "redis://:***@host:6379/0"),
        ("redis://host/0?password=s3cret", "redis://host/0?…"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("memory://", "memory://"),
    ],
)
def test_a_shown_url_holds_no_password(url: str, shown: str) -> None:
    assert mask_url(url) == shown


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 matches"), (1, "1 match"), (2, "2 matches"), (1204, "1,204 matches")]
)
def test_a_count_has_the_right_noun(number: int, said: str) -> None:
    assert console.count_of(number, "match", "matches") == said
    assert console.count_of(1, "event") == "1 event" and console.count_of(2, "event") == "2 events"
