"""Advice of errors on the command line: it names options, not arguments of Python calls."""

from pathlib import Path

import pytest

from functory.cli.output.hints import for_command_line
from tests.support.cli_shell import Shell

CREATED = '{"type": ["order.created"]}'


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (
            ["schedule", "add", "s", "--every", "1h", "--input", "{}"],
            """--function report --input '{"day": "{{ event.data.local_time }}"}'""",
        ),
        (
            ["trigger", "add", "--event-type", "x", "--trigger-function", "f", "--condition", "metadata=1"],
            "--condition auto_validate=true",
        ),
        (["trigger", "add", "--on", CREATED, "--function", "f"], "functory trigger add NAME --on '"),
    ],
)  # fmt: skip
def test_advice_names_options(tmp_path: Path, arguments: list[str], advice: str) -> None:
    done = Shell(tmp_path).run(*arguments, status=2)
    assert f"try: {advice}" in done.stderr


@pytest.mark.parametrize(
    ("python", "command_line"),
    [
        ('limits={"timeout": 30}', "--timeout 30"),
        ('metadata={"description": "…"}', "--metadata description=…"),
        ('conditions={"auto_validate": True}', "--condition auto_validate=true"),
        (
            'make the pattern narrower, or accept it with a bound: guards={"acknowledge_cycle": 1}',
            """make the pattern narrower, or accept it with a bound: --guards '{"acknowledge_cycle": 1}'""",
        ),
        ("save each one on its own and name the others in dependencies=[…]",
         "save each one on its own and name the others in --dep NAME"),
        ("functory trigger show reorder", "functory trigger show reorder"),
    ],
)  # fmt: skip
def test_python_spellings_become_options(python: str, command_line: str) -> None:
    assert for_command_line(python) == command_line
