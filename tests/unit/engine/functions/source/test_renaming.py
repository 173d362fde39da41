"""Texts of a rename: only the name changes, and what could mean something else is refused."""

import ast
import textwrap

import pytest

from functory.engine.errors import Invalid
from functory.engine.functions.source import renaming

SOURCE = textwrap.dedent('''\
    """Reads files with parse."""
    from datetime import date

    class Reader:
        parse = None  # parse

    async  def parse(day: date, /, path="parse", *rest, n: "int" = 1, **more) -> dict:
        """Parses é."""
        inner = [parse for _ in rest]
        return {"é": parse, "f": f"{parse.__name__}", "parse": more.parse, **more}
    ''')


def test_only_the_definition_and_its_references_change():
    text = SOURCE.replace("    parse = None  # parse", "    pass")
    changed = renaming.rename(text, "parse", "parse_file")
    assert changed == (
        text.replace("def parse", "def parse_file")
        .replace("[parse for", "[parse_file for")
        .replace(": parse, ", ": parse_file, ")
        .replace("{parse.__name__}", "{parse_file.__name__}")
    )
    # There and back is the same text, whatever the ends of its lines are.
    assert renaming.rename(changed, "parse_file", "parse") == text
    windows = text.replace("\n", "\r\n")
    assert renaming.rename(windows, "parse", "read") == renaming.rename(text, "parse", "read").replace(
        "\n", "\r\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        SOURCE,
        "def parse(parse): ...",
        "def parse():\n    for parse in (): ...",
        "def parse():\n    from shop import parse",
        "def parse():\n    global parse",
        "def parse():\n    def parse(): ...",
        "def parse(x):\n    match x:\n        case {'a': 1, **parse}: ...",
        "def parse():\n    try: ...\n    except OSError as parse: ...",
    ],
)
def test_a_name_with_a_second_meaning_is_refused(text):
    with pytest.raises(Invalid, match="parse is also the name of something else in its source"):
        renaming.rename(text, "parse", "read")


@pytest.mark.parametrize(
    "text",
    [
        "import read.csv\ndef parse(): ...",
        "from csv import reader as read\ndef parse(): ...",
        "def parse(read): ...",
        "def parse():\n    return read",
        "read = 1\ndef parse(): ...",
        "class read: ...\ndef parse(): ...",
    ],
)
def test_a_new_name_that_the_source_uses_is_refused(text):
    with pytest.raises(Invalid, match=r"the source of parse uses the name read\nline [12]\n"):
        renaming.rename(text, "parse", "read")


def test_a_definition_that_is_not_recognized_is_refused_and_not_guessed():
    with pytest.raises(Invalid, match="cannot be replaced in its source"):
        renaming.rename("def \\\n    parse(): ...", "parse", "read")


def test_an_alias_has_the_signature_and_calls_the_new_name():
    text = SOURCE.replace("class Reader:\n    parse = None  # parse\n", "import csv\nfrom shop import Cart")
    made = ast.parse(renaming.alias(text, "read", ["shop"]))
    original = ast.parse(text).body[-1]
    imported, definition = made.body
    assert ast.unparse(imported) == "from datetime import date"
    assert isinstance(definition, ast.AsyncFunctionDef) and isinstance(original, ast.AsyncFunctionDef)
    assert ast.dump(definition.args) == ast.dump(original.args)
    assert definition.returns is not None and ast.unparse(definition.returns) == "dict"
    assert ast.get_docstring(definition) == "Parses é."
    assert ast.unparse(definition.body[1]) == "return await read(day, path, *rest, n=n, **more)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class Cart: ...\ndef parse(x: Cart): ...", "Cart comes from its source: class Cart:"),
        ("class Cart: ...\ndef parse(x: 'list[Cart]'): ...", "Cart comes from its source"),
        (
            "class Cart: ...\ndef parse(x) -> Cart: ...",
            "Cart comes from its source: class Cart:; the type of the result needs it",
        ),
        (
            "NOTHING = object()\ndef parse(x=NOTHING): ...",
            "NOTHING comes from its source: .*; the default of the parameter x needs it",
        ),
        ("from shop.carts import Cart\ndef parse(x: Cart): ...", "Cart comes from its source: from shop"),
        ("from . import Cart\ndef parse(x: Cart): ...", "Cart comes from its source"),
        ("from decimal import *\ndef parse(x: Decimal): ...", "Decimal comes from its source"),
        ("def parse(x=clean): ...", "clean is a dependency or a module of its own; the default of"),
        (
            "N = 1\ndef parse(a, /, b, c=2, d=N, *, e, f=N): ...",
            ".*; the default of the parameter d and the default of the parameter f needs",
        ),
        ("async def parse():\n    yield 1", "it is an asynchronous generator"),
    ],
)
def test_a_signature_that_means_something_only_in_its_source_has_no_alias(text, why):
    with pytest.raises(Invalid, match=f"there can be no alias of parse\n{why}"):
        renaming.alias(text, "read", ["shop", "clean"])


def test_an_alias_of_a_plain_signature_needs_nothing_of_the_source():
    text = (
        "from decimal import *\nclass Cart: ...\n@wraps\ndef parse(x: int, mode='Cart'):\n    return Cart()\n"
    )
    made = renaming.alias(text, "read")
    assert made.splitlines()[1:] == ["def parse(x: int, mode='Cart'):", "    return read(x, mode)"]
