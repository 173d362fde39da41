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
    ("arguments", "said"),
    [
        (["n=1"], "try: --input n=1\n"),
        (["n=1", "name=$HOME"], "try: --input n=1 --input 'name=$HOME'\n"),
        (['{"n": 1}'], """try: --input-json '{"n": 1}'\n"""),
        (["1"], "try: functory function run --help\n"),
        (["n=1", "2"], "try: functory function run --help\n"),
    ],
)
def test_input_that_is_written_as_an_argument_leads_to_its_option(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["function", "run", "work", *arguments]) == 2
    assert said in capsys.readouterr().err
