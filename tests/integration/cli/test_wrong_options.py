"""A wrong option is answered with those that it may stand for, or with none; a wrong argument with its option."""

from __future__ import annotations

import pytest

from functory.cli.main import main


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--depends-on", "--depends-on; did you mean --dep?"),
        ("--expected-versoin", "--expected-versoin; did you mean --expected-version?"),
        ("--colour", "--colour\n"),
    ],
)
def test_a_wrong_option_leads_to_a_near_one(
    option: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["function", "add", "f.py", option, "g"]) == 2
    shown = capsys.readouterr().err
    assert said in shown.replace("'", "")
    assert "try: functory function add --help" in shown


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("function run work", ["n=1"], "--input n=1"),
        ("function run work", ["n=1", "name=$HOME"], "--input n=1 --input 'name=$HOME'"),
        ("function run work", ['{"n": 1}'], """--input-json '{"n": 1}'"""),
        ("function run work", ["1"], "functory function run --help"),
        ("function run work", ["n=1", "2"], "functory function run --help"),
        ("event emit order.placed", ['{"n": 1}'], """--data '{"n": 1}'"""),
        ("event emit order.placed", ["n"], "functory event emit --help"),
    ],
)
def test_input_that_is_written_as_an_argument_leads_to_its_option(
    command: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), *arguments]) == 2
    assert capsys.readouterr().err.endswith(f"try: {said}\n")
