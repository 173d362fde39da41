"""Static findings: each kind on sources that have it and on similar ones that do not; no source breaks them."""

import ast
import random
import re
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.engine.functions.analysis import findings
from functory.engine.functions.analysis.findings import Finding
from functory.engine.functions.analysis.rules import RULES, SEVERITIES
from functory.workers.environments.requirements import DISTRIBUTIONS
from tests.support.thoroughness import amount

HEAD = "from functory import secret, call, functions, state\n"


def found(text: str, **declared) -> set[str]:
    """The kinds found in ``text``; declared packages and the like are fields of a version."""
    return {finding.kind for finding in findings.review({"source": text, **declared}).findings}


def inside(*lines: str) -> str:
    """A function with these lines."""
    return "def f(x, y):\n" + "".join(f"    {line}\n" for line in lines)


HAS = [
    # imports
    ("undeclared_import", inside("import numpy")),
    ("undeclared_import", "from numpy.linalg import norm\n" + inside("return norm(x)")),
    ("undeclared_import", "from . import sibling\n" + inside("return sibling")),
    ("undeclared_import", "import importlib\n" + inside("return importlib.import_module('numpy')")),
    ("undeclared_import", inside("return __import__('numpy')")),
    # a reader sees something else
    ("hidden_characters", inside("return x  # \u202e } \u2066if y")),
    ("hidden_characters", inside("return 'a\u200bb'")),
    # the engine refuses it
    ("undeclared_secret", HEAD + inside("return secret('KEY')")),
    ("undeclared_secret", "import functory as f\n" + inside("return f.secret(name='KEY')")),
    ("undeclared_secret", inside("from functory import secret as s", "return s('KEY')")),
    ("dynamic_secret", HEAD + inside("return secret(x)")),
    ("dynamic_secret", HEAD + inside("return list(map(secret, x))")),
    ("undeclared_permission", HEAD + inside("return functions.list()")),
    ("undeclared_dependency", inside("return parse(x)")),
    # the sandbox does not have it
    ("subprocess", "import subprocess\n" + inside("subprocess.run(['id'])")),
    ("subprocess", "from os import system as s\n" + inside("s('id')")),
    ("subprocess", "from os import *\n" + inside("system('id')")),
    ("subprocess", inside("__import__('o' + 's').system('id')")),
    ("subprocess", "import os\n" + inside("run = os.popen", "run(x)")),
    ("subprocess", "import os\n" + inside("if os.fork() == 0: return 1")),
    ("subprocess", "from multiprocessing import Pool\n" + inside("return Pool(4).map(x, y)")),
    ("subprocess", "import posix\n" + inside("posix.execv(x, y)")),
    ("network", "import socket\n" + inside("return socket.create_connection((x, 80))")),
    ("network", "import urllib.request\n" + inside("return urllib.request.urlopen(x).read()")),
    ("network", "import requests\n" + inside("return requests.get(x).json()")),
    ("network", "from http.client import HTTPSConnection\n" + inside("return HTTPSConnection(x)")),
    ("network", "import asyncio\n" + "async def f(x): await asyncio.open_connection(x, 80)\n"),
    ("files", inside("return open('/etc/passwd').read()")),
    ("files", inside("return open('/tmp/../etc/passwd').read()")),
    ("files", inside("return open(f'/data/{x}.csv').read()")),
    ("files", "from pathlib import Path\n" + inside("return Path('/root/.ssh/id').read_text()")),
    ("files", "import os\n" + inside("return os.listdir('/home')")),
    ("files", "import shutil\n" + inside("shutil.rmtree('/var/lib')")),
    # fails at run time
    ("generator", inside("yield x")),
    ("generator", "async def f(x):\n    for i in x: yield i\n"),
    ("unreadable", "def f(:"),
    ("unreadable", "def f(): ...\x00"),
]


@pytest.mark.parametrize(("kind", "text"), HAS, ids=lambda value: value if value in RULES else "")
def test_what_is_there_is_found(kind, text):
    assert kind in found(text)


def test_every_kind_has_a_source_that_shows_it():
    needs_a_declaration = {"unused_secret", "unused_dependency", "unused_permission", "unused_grant"}
    needs_an_execution = {"failed_import", "unconvertible_type"}
    assert {kind for kind, _ in HAS} | needs_a_declaration | needs_an_execution == set(RULES)


CLEAN = [
    inside("return x + y"),
    inside("eval = x", "return eval(y)"),
    "class Part:\n    def __init__(self): super().__init__()\n    def __reduce__(self): return super().__reduce__()\n"
    + inside("return Part()"),
    "import json, os.path, xml.dom, tomllib\nfrom concurrent.futures import ThreadPoolExecutor\n"
    + inside("return json.loads(x), os.path.join(x, y), ThreadPoolExecutor()"),
    "from __future__ import annotations\nfrom functory import log\n" + inside("log(x)"),
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\n" + inside("return 1"),
    inside("try:", "    import orjson", "except ImportError:", "    orjson = None", "return orjson"),
    "import subprocess, socket\ndef f(p: subprocess.Popen) -> socket.socket: return p\n",
    "import subprocess, socket\n"
    + inside("try: return x()", "except (subprocess.TimeoutExpired, socket.timeout): return 1"),
    "import os, multiprocessing, socket\n"
    + inside("return os.environ.get('A'), os.getpid(), multiprocessing.cpu_count(), socket.gethostname()"),
    "import socket, subprocess\n" + inside("return socket.AF_INET, socket.SOL_SOCKET, subprocess.PIPE"),
    "import importlib.metadata\n" + inside("return importlib.metadata.version(x)"),
    "import importlib\n" + inside("return importlib.import_module('json')"),
    "from urllib.parse import urlsplit\nfrom http import HTTPStatus\n" + inside("return urlsplit(x), HTTPStatus.OK"),
    "def f(requests, socket): return requests.get(socket.x)\n",
    "from pathlib import Path\n"
    + inside("open('/tmp/a', 'w').write(x)", "open('b').read()", "Path('c').write_text(x)", "return open(x)"),
    inside("return open('/dev/null'), open('/usr/share/zoneinfo/UTC', 'rb')"),
    "class Part:\n    def __init__(self, n): self.n = n\n" + inside("p = Part(x)", "p.n += 1", "return p.n"),
    "from functory import acall\nasync def f(x): return await acall('g', x)\n",
    inside("def rows():", "    yield x", "return list(rows())"),
    inside("return [i for i in x if (m := y(i))], m"),
    "@staticmethod\n" + inside("return x"),
    inside("def g(*a, **k): return a, k", "return g(x, *y, **{})"),
    "class Part:\n    size: int = 1\n    @property\n    def half(self): return self.size\n" + inside("return Part()"),
    inside("match x:", "    case {'a': a, **rest}: return a(rest)", "    case [h, *t]: return h(t)"),
    HEAD + inside("n = state.get('n', 0)", "state.set('n', n + 1)", "return call('parse@2', x)"),
    "fold = lambda g, xs: [g(x) for x in xs]\n" + inside("return fold(x, y)"),
    inside("print(__name__, __file__)", "del x", "return lambda z: z(y)"),
]  # fmt: skip


@pytest.mark.parametrize("text", CLEAN)
def test_what_is_only_similar_is_not_found(text):
    assert [finding.message for finding in findings.analyze(text)] == []


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        # Imports and requirements, by module and by the names of distributions.
        ("import numpy\n" + inside("return numpy"), {"imports": ["numpy"]}, set()),
        (inside("return np.zeros(x)"), {"imports": ["numpy as np"]}, set()),
        (inside("return system(x)"), {"imports": ["from os import system"]}, {"subprocess"}),
        (inside("return requests.get(x)"), {"imports": ["requests"]}, {"network"}),
        ("import yaml\n" + inside("return yaml"), {"imports": [{"name": "yaml", "lib": "pyyaml"}]}, set()),
        ("import yaml\n" + inside("return yaml"), {"requirements": ["PyYAML>=6"]}, set()),
        ("import sklearn\n" + inside("return sklearn"), {"requirements": ["scikit_learn[x]==1.5"]}, set()),
        ("import dateutil\n" + inside("return dateutil"), {"requirements": ["python-dateutil"]}, set()),
        ("import pandas\n" + inside("return pandas"), {"requirements": ["numpy"]}, {"undeclared_import"}),
        (inside("return 1"), {"imports": ["not an import", "a b"]}, set()),
        # What was found in the source alone is in no environment.
        ("import numpy\n" + inside("return numpy"), {"imports": ["numpy"], "declared": {}}, {"undeclared_import"}),
        ("import numpy\n" + inside("return numpy"), {"imports": ["numpy"], "declared": {"imports": True}}, set()),
        # Secrets.
        (HEAD + inside("return secret('A')"), {"secrets": ["A"]}, set()),
        (HEAD + inside("return secret('A')"), {"secrets": ["A", "B"]}, {"unused_secret"}),
        (inside("return 1"), {"secrets": ["A"]}, {"unused_secret"}),
        (HEAD + inside("return secret(x)"), {"secrets": ["A"]}, {"dynamic_secret"}),
        (HEAD + inside("return secret('A') + secret(x)"), {"secrets": ["B"]}, {"undeclared_secret", "dynamic_secret"}),
        ("import functory\n" + inside("return x(functory)"), {"secrets": ["A"]}, set()),
        (inside("return eval(x)"), {"secrets": ["A"], "dependencies": [{"name": "g"}]}, set()),
        # Dependencies.
        (inside("return parse(x)"), {"dependencies": [{"name": "parse"}]}, set()),
        (inside("return list(map(parse, x))"), {"dependencies": [{"name": "parse"}]}, set()),
        (inside("return 1"), {"dependencies": [{"name": "parse"}]}, {"unused_dependency"}),
        (inside("return x.parse(y)"), {"dependencies": [{"name": "parse"}]}, {"unused_dependency"}),
        (HEAD + inside("return call('parse@2', x)"), {"dependencies": [{"name": "parse"}]}, set()),
        (HEAD + inside("return call(x)"), {"dependencies": [{"name": "parse"}]}, set()),
        (HEAD + inside("return call(x), g(x)"), {"secrets": ["A"]}, {"undeclared_dependency", "unused_secret"}),
        (inside("return globals()[x](y)"), {"dependencies": [{"name": "parse"}]}, set()),
        # Permissions.
        (HEAD + inside("return functions.get(x)"), {"permissions": ["functions:read"]}, set()),
        (HEAD + inside("functions.save(x)"), {"permissions": ["functions:read"]},
         {"undeclared_permission", "unused_permission"}),
        (HEAD + inside("return x(functions)"), {"permissions": ["functions:read"]}, set()),
        # Grants.
        ("import subprocess\n" + inside("subprocess.run(x)"), {"grants": {"subprocess": True}}, set()),
        (inside("return 1"), {"grants": {"subprocess": True}}, {"unused_grant"}),
        ("import sh\n" + inside("return sh.ls()"), {"imports": ["sh"], "grants": {"subprocess": True}}, set()),
        ("import pandas\n" + inside("return pandas.read_csv(x)"), {"imports": ["pandas"], "grants": {"hosts": ["a.b"]}},
         set()),
        ("import urllib.request as u\n" + inside("u.urlopen('https://a.example/x')"),
         {"grants": {"hosts": ["a.example"]}}, set()),
        ("import urllib.request as u\n" + inside("u.urlopen('https://a.example')"),
         {"grants": {"hosts": ["A.example:443"]}}, set()),
        ("import urllib.request as u\n" + inside("u.urlopen('http://a.example')"),
         {"grants": {"hosts": ["a.example:443"]}}, {"network"}),
        ("import urllib.request as u\n" + inside("u.urlopen('https://a.example:8443/')"),
         {"grants": {"hosts": ["a.example", "not a host"]}}, {"network"}),
        ("import urllib.request as u\n" + inside("u.urlopen('https://[2001:db8::1]/')", "u.urlopen('https://x/y')"),
         {"grants": {"hosts": ["*"]}}, set()),
        ("import urllib.request as u\n" + inside("u.urlopen('https://b.example/')"),
         {"grants": {"hosts": ["a.example"]}}, {"network"}),
        ("import urllib.request as u\n" + inside("u.urlopen(f'https://me:it@B.example:8443/{x}')"),
         {"grants": {"hosts": ["a.example"]}}, {"network"}),
        ("import urllib.request as u\n" + inside("u.urlopen(f'https://{x}.example/')", "u.urlopen(f'https://a{x}')"),
         {"grants": {"hosts": ["a.example"]}}, set()),
        ("import urllib.request as u\n" + inside("u.urlopen('https://b.c.example/')"),
         {"grants": {"hosts": ["*.c.example"]}}, set()),
        ("import urllib.request as u\n" + inside("u.urlopen('https://c.example/')"),
         {"grants": {"hosts": ["*.c.example"]}}, {"network"}),
        ("import httpx\n" + inside("return httpx.Client().get('https://b.example/')"),
         {"imports": ["httpx"], "grants": {"hosts": ["a.example"]}}, {"network"}),
        (inside("return 'https://b.example/'"), {"grants": {"hosts": ["a.example"]}}, {"unused_grant"}),
        (inside("return open('/data/a.csv').read()"), {"grants": {"files": {"read": ["/data"]}}}, set()),
        (inside("return open('/data2/a.csv').read()"), {"grants": {"files": {"read": ["/data"]}}}, {"files"}),
        (inside("return open('/data/../etc/a').read()"), {"grants": {"files": {"read": ["/data"]}}}, {"files"}),
        (inside("open('/data/a.csv', 'w')"), {"grants": {"files": {"read": ["/data"]}}}, {"files"}),
        (inside("open('/data/a.csv', mode='a')"), {"grants": {"files": {"write": ["/data/"]}}}, set()),
        ("from pathlib import Path\n" + inside("Path('/data/a').unlink()"),
         {"grants": {"files": {"read": ["/data"]}}}, {"files"}),
    ],
)  # fmt: skip
def test_what_is_declared_decides(text, declared, expected):
    assert found(text, **declared) == expected


def test_a_finding_says_what_why_and_what_to_do_with_its_place():
    [finding] = findings.analyze("import os\ndef f():\n    x = 1; os.system('id')\n")
    assert (finding.kind, finding.severity, finding.line, finding.column) == ("subprocess", "warning", 3, 11)
    assert finding.detail == "os.system"
    what, why, try_ = finding.message.split("\n")
    assert what == "os.system is used"
    assert "without the subprocess grant" in why
    assert try_.startswith("try: ")


@pytest.mark.parametrize("kind", RULES.values(), ids=RULES)
def test_every_kind_has_its_severity_its_reason_and_a_way_out(kind):
    assert kind.severity in SEVERITIES
    assert kind.why
    assert kind.try_
    assert "\n" not in kind.why + kind.try_


def test_the_page_about_findings_has_each_kind_with_its_severity():
    page = (Path(__file__).parents[5] / "docs" / "how-to" / "check-functions.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert rows == {name: kind.severity for name, kind in RULES.items()}


def test_a_finding_survives_being_stored():
    for finding in findings.analyze(inside("parse(x)", "open('/etc/x')", "yield x")):
        assert Finding.from_json(finding.as_json()) == finding


def test_a_requirement_brings_the_modules_that_an_import_of_them_would_ask_it_for():
    for module, distribution in DISTRIBUTIONS.items():
        assert (
            found(f"import {module}\n" + inside("return 1"), requirements=[f"{distribution}>=1"]) == set()
        ), module


def test_findings_are_in_the_order_of_the_text_and_one_place_is_reported_once():
    text = inside("open('/etc/b')", "g(x) + g(y)", "open('/etc/a')")
    assert [(f.line, f.kind) for f in findings.analyze(text)] == [
        (2, "files"),
        (3, "undeclared_dependency"),
        (4, "files"),
    ]


def test_of_one_kind_the_first_places_are_kept_and_no_kind_is_crowded_out():
    text = "def f(x):\n" + "    open('/etc/x')\n" * 500 + "    import numpy\n"
    kept = findings.analyze(text)
    assert [f.kind for f in kept] == ["files"] * findings.MAX_PER_KIND + ["undeclared_import"]
    assert "and 480 more of this kind" in kept[findings.MAX_PER_KIND - 1].message
    just = findings.analyze("def f(x):\n" + "    open('/etc/x')\n" * findings.MAX_PER_KIND)
    assert len(just) == findings.MAX_PER_KIND
    assert not any("more of this kind" in f.message for f in just)


def test_an_operator_refuses_kinds_by_name_or_by_severity():
    some = findings.analyze(inside("import numpy", "open('/etc/x')"))
    findings.check_allowed("f", some, [])
    findings.check_allowed("f", some, ["danger", "network"])
    with pytest.raises(
        Invalid, match=r"(?s)f has a finding that is refused here: files\nline 3: /etc/x is.*refuse_findings"
    ):
        findings.check_allowed("f", some, ["files"])
    with pytest.raises(Invalid, match="refused here: undeclared_import\nline 2: "):
        findings.check_allowed("f", some, ["warning"])
    unused = findings.review({"source": inside("return 1"), "secrets": ["A"]}).findings
    with pytest.raises(Invalid, match="refused here: unused_secret\nthe secret A"):
        findings.check_allowed("f", unused, ["info"])


def test_an_unknown_kind_in_a_policy_is_refused_with_the_known_ones():
    with pytest.raises(Invalid, match=r"(?s)unknown kind of finding 'evil'.*the kinds are .*files.*danger"):
        findings.check_kinds(["files", "evil"])


def test_an_event_gets_numbers_only():
    stored = [f.as_json() for f in findings.analyze(inside("g(x)", "g(y)", "open('/etc/x')"))]
    assert findings.count_by_kind(stored) == {"files": 1, "undeclared_dependency": 2}


HOSTILE = {
    "deep parentheses": "def f(): return " + "(" * 150 + "1" + ")" * 150,
    "too deep": "def f(): return " + "(" * 5000 + ")" * 5000,
    "long sum": "def f(): return " + "+".join(["x"] * 900),
    "very long sum": "def f(): return " + "+".join(["x"] * 20_000),
    "long attribute chain": "def f(): return a" + ".b" * 800,
    "very long attribute chain": "def f(): return a" + ".b" * 50_000,
    "call chain": "def f(): return a" + "()" * 800,
    "subscript chain": "def f(): return __builtins__" + "['a']" * 800,
    "signs": "def f(): return " + "-" * 5000 + "1",
    "not": "def f(): return " + "not " * 5000 + "1",
    "lambdas": "def f(): return " + "lambda: " * 800 + "1",
    "names in a ring": "a = b\nb = c\nc = a\ndef f(): return a.system()",
    "a name that is itself": "a = a\ndef f(): return a()",
    "names in a row": "\n".join(f"a{n} = a{n + 1}" for n in range(5000)) + "\ndef f(): return a0()",
    "one name many times": "\n".join(f"a = b\nb = a.c{n}" for n in range(3000)) + "\ndef f(): return a()",
    "many functions inside": "def f():\n"
    + "\n".join(f"    def g{n}(): return eval(h{n})" for n in range(3000)),
    "many loops": "def f():\n"
    + "\n".join(f"{'  ' * (n + 1)}while True:" for n in range(90))
    + "\n"
    + "  " * 92
    + "x()",
    "wide try": "def f():\n  try:\n" + "    while True: x()\n" * 5000 + "  except ValueError: pass",
    "texts in texts": "def f(): return "
    + "eval("
    + repr("eval(" + repr("eval(" + repr("eval(x)") + ")") + ")")
    + ")",
    "a million characters": "def f(): return '" + "x" * 1_000_000 + "'",
    "null": "def f(): ...\x00",
    "surrogate": "def f(): return '\ud800'",
    "nothing": "",
    "strange encoding": "# -*- coding: rot13 -*-\ndef f(): ...",
    "unfinished": "def f(): return '''",
    "deep fields": "def f(x): return '" + "{a.__class__" * 5000 + "'.format(x)",
    "tabs and spaces": "def f():\n\tif x:\n        y\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_sources_break_nothing(text):
    for finding in findings.analyze(text):
        assert finding.kind in RULES


def test_what_cannot_be_read_is_itself_a_finding():
    assert [f.kind for f in findings.analyze("def f(): return " + "(" * 5000)] == ["unreadable"]
    [finding] = findings.analyze("def f():\n" + "    x(a, b, c, d, e)\n" * 40_000)
    assert (finding.kind, finding.severity) == ("unreadable", "danger")
    assert finding.message.startswith("the source cannot be checked: it has more than 250000 parts\n")


def test_nothing_of_a_source_is_executed(tmp_path):
    mark = tmp_path / "mark"
    text = (
        f"open({str(mark)!r}, 'w')\nexec(\"open({str(mark)!r}, 'w')\")\nimport antigravity_{mark.name}\n"
        + inside("1")
    )
    findings.analyze(text)
    assert not mark.exists()


WORDS = [*"abc", "eval", "__import__", "os", "self", "secret", "functory", "__builtins__", "f"]
NAMES = st.sampled_from(WORDS).map(lambda name: ast.Name(name, ast.Load()))
CONSTANTS = st.one_of(st.none(), st.integers(0, 9), st.text(max_size=5), st.sampled_from(WORDS)).map(
    ast.Constant
)


def _wider(inner: st.SearchStrategy) -> st.SearchStrategy:
    several = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(
            ast.Attribute, inner, st.sampled_from([*WORDS, "__globals__", "system"]), st.just(ast.Load())
        ),
        st.builds(ast.Call, inner, several, st.just([])),
        st.builds(ast.Subscript, inner, inner, st.just(ast.Load())),
        st.builds(ast.BinOp, inner, st.just(ast.Add()), inner),
        st.builds(ast.List, several, st.just(ast.Load())),
        st.builds(ast.Await, inner),
        st.builds(ast.Yield, inner),
        st.builds(
            ast.ListComp,
            inner,
            st.lists(
                st.builds(ast.comprehension, st.just(ast.Name("a", ast.Store())), inner, several, st.just(0)),
                min_size=1,
                max_size=2,
            ),
        ),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, CONSTANTS), _wider, max_leaves=12)


def _statements(inner: st.SearchStrategy) -> st.SearchStrategy:
    body = st.lists(inner, min_size=1, max_size=3)
    store = st.sampled_from(WORDS).map(lambda name: [ast.Name(name, ast.Store())])
    return st.one_of(
        st.builds(ast.While, EXPRESSIONS, body, st.just([])),
        st.builds(ast.If, EXPRESSIONS, body, body),
        st.builds(ast.Try, body, st.builds(ast.ExceptHandler, EXPRESSIONS, st.none(), body).map(lambda h: [h]),
                  st.just([]), st.just([])),
        st.builds(ast.Assign, store, EXPRESSIONS),
        st.builds(ast.Global, st.lists(st.sampled_from(WORDS), min_size=1, max_size=2)),
    )  # fmt: skip


STATEMENTS = st.recursive(
    st.one_of(st.builds(ast.Expr, EXPRESSIONS), st.builds(ast.Return, EXPRESSIONS)), _statements, max_leaves=8
)


@settings(max_examples=amount(40, 300), deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=4), st.booleans())
def test_random_programs_are_read(body, is_async):
    kind = ast.AsyncFunctionDef if is_async else ast.FunctionDef
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    module = ast.Module([kind("f", nothing, body, [])], [])
    text = ast.unparse(ast.fix_missing_locations(module))
    lines = text.count("\n") + 1
    for finding in findings.analyze(text):
        assert finding.kind in RULES
        assert 0 <= finding.line <= lines
        assert finding.kind != "unreadable" or not _parses(text)


@settings(max_examples=amount(40, 300), deadline=None)
@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_random_texts_are_read(text):
    unreadable = "unreadable" in {finding.kind for finding in findings.analyze(text)}
    assert unreadable == (not _parses(text))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def test_real_code_is_read():
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))
    files = [f for f in files if "site-packages" not in f.parts and "lib2to3" not in f.parts]
    for file in random.Random(4).sample(files, amount(15, 200)):
        text = file.read_text(encoding="utf-8", errors="replace")
        kinds = {finding.kind for finding in findings.analyze(text)}
        assert kinds <= set(RULES), file
        assert ("unreadable" in kinds) == (not _parses(text)), file
    assert sys.getrecursionlimit() >= 1000
