"""What a file of a project says about its functions, and the error of a file that says nothing that can be stored."""

import pytest

from functory.engine.functions.source import parser
from functory.project.function_files import FileProblem, read

PLAIN = """\
# /// functory
# timeout = 30
# secrets = ["SHOP_KEY"]
#
# [metadata]
# team = "shop"
# ///
import re

RATE = 3


def price(text: str) -> int:
    return int(re.sub(r"\\D", "", text)) * RATE
"""

DECORATED = """\
import functory
from functory import register_function

RATE = 3
UNUSED = open


@register_function(
    dependencies=["price"],
    retries=2,
)
async def total(text: str) -> int:
    return price(text) * RATE


@functory.register_function
def price(text: str) -> int:
    return len(text)


if __name__ == "__main__":
    functory.register()
"""


def test_a_plain_file_is_the_source_and_its_block_the_fields():
    (entry,) = read(PLAIN)
    assert (entry.name, entry.text, entry.line) == ("price", PLAIN, 13)
    assert entry.fields == {
        "secrets": ["SHOP_KEY"],
        "metadata": {"team": "shop"},
        "limits": {"timeout": 30},
    }


def test_each_decorated_function_is_an_entry_with_what_it_uses_of_the_file():
    total, price = read(DECORATED)
    assert (total.name, total.fields, total.line) == (
        "total",
        {"dependencies": ["price"], "limits": {"retries": 2}},
        12,
    )
    assert total.text == "RATE = 3\n\n\nasync def total(text: str) -> int:\n    return price(text) * RATE\n"
    assert (price.name, price.text) == ("price", "def price(text: str) -> int:\n    return len(text)\n")
    assert parser.parse(total.text).is_async


def test_what_a_file_runs_is_never_executed(tmp_path):
    marker = tmp_path / "ran"
    read(f"def f():\n    return 1\n\nX = open({str(marker)!r}, 'w')\n")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("def a(:\n    pass\n", (1, 7), "syntax error"),
        ("x = 1\n", (1, 1), "the file has no function"),
        ("def a(): pass\ndef b(): pass\n", (2, 1), "it is not said which functions are stored"),
        ("@register_function(timeout=T)\ndef a(): pass\n", (1, 28), "the value of timeout is computed"),
        ("@register_function(**FIELDS)\ndef a(): pass\n", (1, 22), "the value of ** is computed"),
        ("@register_function(3)\ndef a(): pass\n", (1, 20), "takes fields by name"),
        ("@register_function(retires=2)\ndef a(): pass\n", (2, 1), "unknown fields of a function: retires"),
        ("@register_function(author='x')\ndef a(): pass\n", (1, 1), "a file cannot set author"),
        (
            "@register_function\ndef a(): pass\n\n@register_function\ndef a(): pass\n",
            (5, 1),
            "the function a is there twice",
        ),
        (
            "@register_function\ndef a(): return b()\n\ndef b(): pass\n",
            (2, 1),
            "a uses the function b of its file",
        ),
        ("# /// functory\n# timeout = \n# ///\ndef a(): pass\n", (1, 1), "the block of fields is no TOML"),
        ("# /// functory\n# timeout = 3\ndef a(): pass\n", (1, 1), "the block of fields is not ended"),
        ("# /// functory\n# ///\n# /// functory\n# ///\ndef a(): pass\n", (3, 1), "two blocks of fields"),
        (
            "# /// functory\n# ///\n@register_function\ndef a(): pass\n",
            (1, 1),
            "the file has a block of fields and a decorator",
        ),
        ("def print(): pass\n\x00", (1, 1), "source code string cannot contain null bytes"),
    ],
)
def test_a_file_that_cannot_be_stored_says_why_and_where(text, place, what):
    with pytest.raises(FileProblem) as raised:
        read(text)
    assert what in raised.value.error.reason
    assert (raised.value.line, raised.value.column) == place
