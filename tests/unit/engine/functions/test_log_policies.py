"""Log policies: which lines of an ended attempt are kept."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.functions.log_policies import LINES_OF_A_FAILURE, MOST_WARNINGS, LogPolicy

ID = "0198d1b4-0000-7000-8000-000000000001"


def line(seq: int, level: str = "info") -> dict[str, Any]:
    return {"seq": seq, "stream": "stdout", "level": level, "text": str(seq), "offset_seconds": seq / 10}


def kept(policy: str, lines: list[dict[str, Any]], *, failed: bool = False) -> list[str]:
    return [row["text"] for row in LogPolicy.parse(policy).kept(ID, lines, failed=failed)]


def test_full_keeps_all_and_off_keeps_nothing_whatever_happens() -> None:
    lines = [line(1), line(2, "error")]
    assert kept("full", lines) == kept("full", lines, failed=True) == ["1", "2"]
    assert kept("off", lines) == kept("off", lines, failed=True) == []


def test_summary_keeps_warnings_and_errors_and_says_how_many_lines_there_were() -> None:
    lines = [line(1), line(2, "warning"), line(3), line(4, "error"), line(5)]
    assert kept("summary", lines) == ["2", "4", "2 of 5 log lines kept: the log policy is summary"]
    rows = LogPolicy.parse("summary").kept(ID, lines, failed=False)
    # The last row comes behind all lines, those that are not kept among them.
    assert [row["seq"] for row in rows] == [2, 4, 6]
    assert (rows[-1]["stream"], rows[-1]["level"]) == ("log", "info")
    assert kept("summary", []) == []
    assert kept("summary", [line(1, "error")]) == ["1"]


def test_summary_keeps_the_last_lines_of_a_failure() -> None:
    lines = [line(number) for number in range(1, 151)]
    found = kept("summary", lines, failed=True)
    assert found[:-1] == [str(number) for number in range(51, 151)]
    assert found[-1] == "100 of 150 log lines kept: the log policy is summary"
    assert kept("summary", lines[:LINES_OF_A_FAILURE], failed=True) == [row["text"] for row in lines[:100]]
    floods = [line(number, "warning") for number in range(1, 301)]
    assert len(kept("summary", floods)) == MOST_WARNINGS + 1


def test_sampled_keeps_all_lines_of_its_share_of_executions_and_a_summary_of_the_others() -> None:
    policy = LogPolicy.parse("sampled:0.2")
    ids = [str(uuid.UUID(int=number)) for number in range(2000)]
    chosen = [id_ for id_ in ids if policy.keeps_all(id_)]
    assert 300 < len(chosen) < 500
    # Every attempt of an execution is treated alike, and a larger share keeps what a smaller one keeps.
    assert [id_ for id_ in ids if policy.keeps_all(id_)] == chosen
    assert all(LogPolicy.parse("sampled:0.5").keeps_all(id_) for id_ in chosen)
    other = next(id_ for id_ in ids if id_ not in chosen)
    lines = [line(1), line(2, "warning")]
    assert [row["text"] for row in policy.kept(chosen[0], lines, failed=False)] == ["1", "2"]
    assert policy.kept(other, lines, failed=False)[0]["text"] == "2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("full", "full"),
        ("sampled", "sampled:0.1"),
        ("sampled:.50", "sampled:0.5"),
        ("sampled:0.0001", "sampled:0.0001"),
        ("sampled:0.99991234", "sampled:0.9999"),
    ],
)
def test_a_policy_is_stored_in_one_form(text: str, shown: str) -> None:
    assert str(LogPolicy.parse(text)) == shown
    assert LogPolicy.parse(shown) == LogPolicy.parse(text)


@pytest.mark.parametrize(
    "text", ["", "all", "FULL", "sampled:0", "sampled:1", "sampled:2", "sampled:", "sampled:-0.1", "sampled:1e-3",
             "sampled:0.00001", "sampled:0.99999",
             "full:0.5", "off ", "sampled:0.5\n", "sampled:\u0660.\u0665"],
)  # fmt: skip
def test_what_is_no_policy_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(Invalid, match="full, summary, sampled or off"):
        LogPolicy.parse(text)
