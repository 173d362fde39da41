"""Advice of errors on the command line: it names options, not arguments of Python calls."""

import re
from pathlib import Path

import pytest

from functory.cli.output.hints import for_command_line, in_message
from functory.engine.functions import declaration
from tests.support.cli_shell import Shell
from tests.support.product_texts import ROOT, texts_of_source

CREATED = '{"type": ["order.created"]}'


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (
            ["schedule", "add", "s", "--every", "1h", "--input", "{}"],
            """--function report --input '{"day": "{{ event.data.local_time }}"}'""",
        ),
        (["schedule", "add", "s", "--every", "soon"], "--every 90s (or 5m, 1h30m, 2d)"),
        (["schedule", "add", "s", "--cron", "99 99"], "--cron '30 2 * * *' for half past two each day"),
        (["schedule", "add", "s", "--at", "soon"], "--at 2026-12-24T18:00"),
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
        ('catch_up_window: "90s", "5m", "1h30m" or "2d"', "--catch-up-window 90s (or 5m, 1h30m, 2d)"),
        ('--since: "90s", "5m", "1h30m" or "2d"', "--since 90s (or 5m, 1h30m, 2d)"),
        ('limits={"threads": 30}', "--limit threads=30"),
        ("work on smaller pieces, or raise memory_bytes",
         "work on smaller pieces, or give it more with --limit memory_bytes=…"),
        ('metadata={"description": "…"}', "--metadata description=…"),
        ('conditions={"auto_validate": True}', "--condition auto_validate=true"),
        (
            'make the pattern narrower, or accept it with a bound: guards={"acknowledge_cycle": 1}',
            """make the pattern narrower, or accept it with a bound: --guards '{"acknowledge_cycle": 1}'""",
        ),
        ("save each one on its own and name the others in dependencies=[…]",
         "save each one on its own and name the others with --dep NAME"),
        ("add it to imports=[…] or requirements=[…]", "add it with --import NAME or --requirement NAME"),
        ("remove it from secrets=[…]", "name only the others with --secret NAME, or --secret none"),
        ("work below /tmp, or name the path in files={…}",
         "work below /tmp, or name the path with --read PATH or --write PATH"),
        ('files={"read": ["/data/in"], "write": ["/data/out"]}', "--read /data/in --write /data/out"),
        ('files={"read": ["/data"]}', "--read /data"),
        ('hosts=["*.example.com"]; a program has none', "--host '*.example.com'; a program has none"),
        ('declare secrets=["KEY"], read by secret("KEY")', 'declare --secret KEY, read by secret("KEY")'),
        ("functory trigger show reorder", "functory trigger show reorder"),
    ],
)  # fmt: skip
def test_python_spellings_become_options(python: str, command_line: str) -> None:
    assert for_command_line(python) == command_line


def test_no_text_of_the_engine_has_the_arguments_of_a_python_call_on_the_command_line() -> None:
    arguments = "|".join((*declaration.FIELDS, "guards", "conditions", "on", "input"))
    spelled = re.compile(rf"(?<![-\w])({arguments})=[\[{{]|\bregister_trigger\(")
    left = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for room in ("engine", "triggers", "workers")
        for path in sorted((ROOT / "functory" / room).rglob("*.py"))
        for line, text, shown in texts_of_source(path)
        if shown and spelled.search(text)
    ]
    assert left == []


def test_the_error_of_an_execution_gives_its_advice_in_options() -> None:
    recorded = (
        'no host is granted to it\n  try: hosts=["a.org:443"]; a program has no network\nhosts=[1] is mine'
    )
    assert in_message(recorded).split("\n") == [
        "no host is granted to it", "  try: --host a.org:443; a program has no network", "hosts=[1] is mine",
    ]  # fmt: skip
