"""Source texts: what is read off them without running them, and what is refused with the place."""

import sys
import textwrap

import pytest

from functory.engine import names
from functory.engine.errors import Invalid
from functory.engine.functions.source import capture, parser


def test_a_source_tells_its_name_parameters_imports_and_description():
    found = parser.parse(
        textwrap.dedent('''
        import os, numpy.linalg as la
        from scipy import stats
        from functory import call
        from . import sibling
        LIMIT = 3
        class Part: ...

        async def work(a, /, b, *rest, c, d=1, **more):
            """Does the work.

            And more."""
            import pandas
    ''')
    )
    assert (found.name, found.is_async, found.description) == ("work", True, "Does the work.")
    assert found.imports == ("numpy", "pandas", "scipy")
    assert [(p.name, p.kind, p.required) for p in found.parameters] == [
        ("a", "positional_only", True),
        ("b", "positional", True),
        ("rest", "var_positional", False),
        ("c", "keyword", True),
        ("d", "keyword", False),
        ("more", "var_keyword", False),
    ]


def test_equal_texts_have_equal_hashes_and_others_do_not():
    one, same, other = (
        parser.parse(text).sha256 for text in ("def f(): ...", "def f(): ...", "def f(): ... ")
    )
    assert one == same != other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n    pass\n", r"(?s)the source has a syntax error\nline 1: .*\n    def f\(:\n {4} {6}\^"),
        ("def f():\n    x = = 1\n", r"(?s)line 2: .*x = = 1"),
        ("def f():\npass\n", "line 2: expected an indented block"),
        ("", "holds no function"),
        ("x = 1\n", "holds no function"),
        ("class C:\n    def f(self): ...\n", "holds no function"),
        (
            "def f(): ...\ndef g(): ...\n",
            r"several functions\nfound f \(line 1\), g \(line 2\)\ntry: save each one",
        ),
        ("def f(): ...\nprint(1)\n", r"does something at its top level\nline 2: print\(1\)"),
        ("for x in []: ...\ndef f(): ...\n", "line 1: for x in"),
        ("if True:\n    import os\ndef f(): ...\n", "line 1: if True"),
        ("try:\n    import os\nexcept ImportError: ...\ndef f(): ...\n", "line 1: try"),
        ("def f(): ...\nf()\n", "line 2"),
        ("def f(): ...\x00", "cannot be read as Python|syntax error"),
        ("def f(): return '\ud800'\n", "cannot be read as Python|syntax error"),
        ("def emit(): ...\n", "the name emit is reserved"),
        ("def __call__(): ...\n", "the name __call__ is reserved"),
        ("def ä(): ...\n", "is not a function name"),
        (f"def {'x' * 201}(): ...\n", "is not a function name"),
        ("x = " + "(" * 500 + ")" * 500 + "\ndef f(): ...\n", "syntax error|cannot be read"),
        ("#" * parser.MAX_BYTES + "\n", "the source is too large"),
    ],
)
def test_a_wrong_source_is_refused_with_the_place(text, message):
    with pytest.raises(Invalid, match=message):
        parser.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring."""\ndef f(): ...\n',
        "from __future__ import annotations\ndef f(): ...\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\ndef f(): ...\n",
        "import typing\nif typing.TYPE_CHECKING:\n    import os\ndef f(): ...\n",
        "x: int = 1\ndef f(): ...\n",
        "def f():\n    def g(): ...\n    for x in g(): print(x)\n",
        "@decorate\ndef f(): ...\n",
        pytest.param(
            "type Rows = list[dict]\ndef f(rows: Rows): ...\n",
            marks=pytest.mark.skipif(
                sys.version_info < (3, 12), reason="type statements came with Python 3.12"
            ),
        ),
    ],
)
def test_imports_constants_and_classes_may_stand_beside_the_function(text):
    assert parser.parse(text).name == "f"


def test_another_name_than_the_expected_is_refused():
    with pytest.raises(Invalid, match=r"the source defines f, not g\nline 2\ntry: rename it to g"):
        parser.parse("\ndef f(): ...\n", "g")
    with pytest.raises(Invalid, match="the source is not text"):
        parser.parse(b"def f(): ...")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["", "1a", "a-b", "a.b", "class", "None", "a b", "a\n", "call", "functory", None, 5]
)
def test_a_wrong_name_is_refused(name):
    with pytest.raises(Invalid):
        names.check_name(name)


FILE = textwrap.dedent('''
    from __future__ import annotations

    import json as encoder
    import os.path
    import xml.dom
    import xml.sax
    from dataclasses import dataclass, field
    from typing import TYPE_CHECKING, Optional

    from functory import call, register_function

    if TYPE_CHECKING:
        from decimal import Decimal

    try:
        import tomllib as toml
    except ImportError:
        toml = None

    BASE = 2
    FACTOR = BASE * 3; UNUSED = 4
    FACTOR += 1
    first, *others = [1, 2]


    @dataclass
    class Part:
        """It mentions other() and UNUSED."""
        size: int = field(default=BASE)

        def half(self, UNUSED=1):
            other = UNUSED
            return other


    def other(): ...


    def decorate(f): return f


    def work(): ...
''')


def taken(body: str, *dependencies: str) -> list[str]:
    """What a function `work` with this text takes along from FILE, line by line."""
    file = FILE.replace("def work(): ...", textwrap.dedent(body).strip())
    return [
        line
        for line in capture.required_statements(file, "work", frozenset(dependencies)).split("\n")
        if line
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("def work(): return 1", []),
        ("def work(): return encoder", ["import json as encoder"]),
        ("def work(): return os.path.join('a')", ["import os.path"]),
        ("def work(): return xml", ["import xml.dom", "import xml.sax"]),
        ("def work(x: Optional[int]): ...", ["from typing import TYPE_CHECKING, Optional"]),
        ("def work(x: 'Optional[int]'): ...", ["from typing import TYPE_CHECKING, Optional"]),
        ("def work() -> 'list[Optional]': ...", ["from typing import TYPE_CHECKING, Optional"]),
        ("def work(x=BASE): ...", ["BASE = 2"]),
        ("def work(): return others", ["first, *others = [1, 2]"]),
        ("async def work(): return [BASE for _ in range(3)]", ["BASE = 2"]),
        ("def work():\n    def inner(): return BASE\n    return inner", ["BASE = 2"]),
        ("def work():\n    class C:\n        x = BASE\n    return C", ["BASE = 2"]),
        (
            "def work(x: Decimal): ...",
            [
                "from typing import TYPE_CHECKING, Optional",
                "if TYPE_CHECKING:",
                "    from decimal import Decimal",
            ],
        ),
        ("def work(): return 'BASE and other()'", []),
        ("def work():\n    '''See other and toml.'''", []),
        ("def work(other, toml): return other, toml", []),
        ("def work():\n    BASE = 1\n    other = [toml for toml in BASE]\n    return other", []),
        ("def work(x): return x.other, x.BASE, dict(other=1)", []),
        ("def work(): return call('other')", ["from functory import call, register_function"]),
        ("@register_function()\ndef work(): ...", []),
    ],
)
def test_a_function_takes_along_what_it_uses_of_its_file_and_nothing_else(body, expected):
    assert taken(body) == expected


def test_what_is_taken_along_brings_what_it_needs_itself():
    part = taken("def work(): return Part().half()")
    assert part[:3] == ["from dataclasses import dataclass, field", "BASE = 2", "@dataclass"]
    assert "def other" not in "\n".join(part)
    assert not any("UNUSED = 4" in line for line in part)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def work(): return other()", r"work uses the function other of its file.*register other too"),
        ("@decorate\ndef work(): ...", r"work uses the function decorate of its file"),
        ("def work(x=other): ...", r"work uses the function other of its file"),
        (
            "def work(): return toml",
            r"work uses toml, which its file defines in a way that cannot be stored\nline 16: try:",
        ),
        ("def work(): return FACTOR", r"work uses FACTOR.*\nline \d+: FACTOR \+= 1"),
    ],
)
def test_what_cannot_come_along_is_refused_with_the_place(body, message):
    with pytest.raises(Invalid, match=f"(?s){message}"):
        taken(body)


def test_a_dependency_is_not_taken_along():
    assert taken("def work(): return other()", "other") == []


@pytest.mark.parametrize(
    "decorator",
    [
        "@register_function",
        "@register_function()",
        "@functory.register_function(\n    timeout=3,\n)",
        "@engine.register_function(metadata={'a': [1]})",
    ],
)
def test_the_registration_is_no_part_of_the_stored_source_and_other_decorators_are(decorator):
    text = f"@first\n{decorator}\n@second\ndef work(): ...\n"
    assert capture.without_decorators(text, "work") == "@first\n@second\ndef work(): ...\n"


class Shop:
    def sell(self, count): ...

    @staticmethod
    def price(): ...


@pytest.mark.parametrize("method", [Shop.sell, Shop().sell, Shop.price])
def test_a_method_is_refused(method):
    with pytest.raises(Invalid, match=f"{method.__name__} is a method of the class Shop"):
        capture.capture_source(method, frozenset())


def test_a_method_of_a_class_inside_of_a_function_is_refused():
    class Local:
        def sell(self): ...

    with pytest.raises(Invalid, match="sell is a method of the class Local"):
        capture.capture_source(Local.sell, frozenset())
