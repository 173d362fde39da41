"""A wrong option is answered with those that it may stand for, or with none."""

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
