"""A function in the child gets its input and dependencies, and gives its result or error."""

from __future__ import annotations

import pytest

from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, code, job, printed


@pytest.fixture(scope="module")
def runner():
    with Runner() as started:
        yield started


def run(runner, *args, host=None, **fields):
    return runner.run(job(*args, **fields), host or FakeHost())


def result(runner, *args, **fields):
    outcome = run(runner, *args, **fields)
    assert outcome.status == "succeeded", outcome.error
    return outcome.result


def test_a_function_returns_its_result_and_its_output_is_logged_by_line(runner):
    outcome = run(
        runner,
        """
        import sys
        def f(a, b=2):
            print("one\\ntwo")
            print("careful", file=sys.stderr)
            sys.stdout.write("no newline")
            return {"sum": a + b, "list": [1, 2.5, None, True, "ä\\0"]}
        """,
        input={"a": 1},
    )
    assert outcome.status == "succeeded"
    assert outcome.result == {"sum": 3, "list": [1, 2.5, None, True, "ä\0"]}
    assert (outcome.warnings, outcome.error) == ([], None)
    assert printed(outcome) == ["one", "two", "no newline"]
    assert printed(outcome, "stderr") == ["careful"]
    assert [log.seq for log in outcome.logs] == [1, 2, 3, 4]


def test_an_async_function_runs_in_an_event_loop(runner):
    source = """
        import asyncio
        async def f(n):
            return sum(await asyncio.gather(*(asyncio.sleep(0.001, i) for i in range(n))))
        """
    assert result(runner, source, input={"n": 5}) == 10


@pytest.mark.parametrize(
    ("definition", "given", "expected"),
    [
        (
            "def f(a, /, b, *args, c=3, **kwargs)",
            {"a": 1, "b": 2, "args": [7, 8], "z": 9},
            [1, 2, [7, 8], 3, {"z": 9}],
        ),
        ("def f(a, /, b=2, *args, c, **kwargs)", {"a": 1, "args": [7], "c": 4}, [1, 2, [7], 4, {}]),
        ("def f(a=5, /, b=6, *args, c=7, **kwargs)", {"b": 1}, [5, 1, [], 7, {}]),
        ("def f(a=5, b=6, *args, c=7, **kwargs)", {"kwargs": 1, "args": []}, [5, 6, [], 7, {"kwargs": 1}]),
    ],
)
def test_input_reaches_every_kind_of_parameter(runner, definition, given, expected):
    source = f"{definition}:\n    return [a, b, list(args), c, kwargs]"
    assert result(runner, source, input=given) == expected


@pytest.mark.parametrize(
    "name",
    ["function_name", "parent_log_id", "self", "name", "input", "args", "kwargs", "job", "key", "function"],
)
def test_no_parameter_name_is_reserved(runner, name):
    inner = code(f"def g({name}):\n    return {name}", "g")
    entry = code(f"def f({name}):\n    return g({name}={name})", dependencies={"g": "g@1"})
    outcome = run(runner, entry, inner, input={name: 42})
    assert outcome.result == 42
    assert outcome.spans[0].input == {name: 42}


def test_input_that_does_not_fit_fails_as_python_calls_do(runner):
    missing = run(runner, "def f(a, b): pass", input={"a": 1})
    assert (missing.status, missing.error["type"]) == ("failed", "TypeError")
    assert "missing" in missing.error["message"] and "'b'" in missing.error["message"]
    surplus = run(runner, "def f(a): pass", input={"a": 1, "x": 2})
    assert "unexpected keyword argument 'x'" in surplus.error["message"]
    no_list = run(runner, "def f(*rows): pass", input={"rows": "abc"})
    assert "must be a list" in no_list.error["message"]
    before = run(runner, "def f(a, *rows): return a", input={"rows": [1]})
    assert "missing a required argument: 'a'" in before.error["message"]


def test_calls_of_dependencies_are_spans_with_their_parents(runner):
    parse = code("def parse(text):\n    return {'n': int(text)}", "parse", 3)
    load = code(
        "def load(text, *more, **named):\n    return parse(text)['n'] + len(more) + len(named)",
        "load",
        dependencies={"parse": "parse@3"},
    )
    entry = code(
        "def f():\n    return load('1', 2, x=3) + parse('4')['n']",
        dependencies={"load": "load@1", "parse": "parse@3"},
    )
    outcome = run(runner, entry, load, parse)
    assert outcome.result == 7
    assert [(s.seq, s.parent_seq, s.function, s.version) for s in outcome.spans] == [
        (1, None, "load", 1),
        (2, 1, "parse", 3),
        (3, None, "parse", 3),
    ]
    first, nested, last = outcome.spans
    assert first.input == {"text": "1", "more": [2], "x": 3}
    assert (first.output, nested.output, last.output) == (3, {"n": 1}, {"n": 4})
    assert nested.offset_seconds >= first.offset_seconds
    assert nested.duration_seconds <= first.duration_seconds <= outcome.duration_seconds


def test_a_diamond_runs_the_shared_version_once_for_each_call(runner):
    bottom = code("def bottom(x):\n    return x + 1", "bottom")
    left = code("def left(x):\n    return bottom(x)", "left", dependencies={"bottom": "bottom@1"})
    right = code("def right(x):\n    return bottom(x) * 10", "right", dependencies={"bottom": "bottom@1"})
    top = code(
        "def f(x):\n    return left(x) + right(x)", dependencies={"left": "left@1", "right": "right@1"}
    )
    outcome = run(runner, top, left, right, bottom, input={"x": 1})
    assert outcome.result == 22
    assert [(s.function, s.parent_seq) for s in outcome.spans] == [
        ("left", None),
        ("bottom", 1),
        ("right", None),
        ("bottom", 3),
    ]


def test_two_versions_of_one_dependency_live_side_by_side(runner):
    old = code("STATE = 'old'\ndef parse():\n    return STATE", "parse", 1)
    new = code("STATE = 'new'\ndef parse():\n    return STATE", "parse", 2)
    middle = code("def middle():\n    return parse()", "middle", dependencies={"parse": "parse@1"})
    top = code(
        "def f():\n    return [parse(), middle()]", dependencies={"parse": "parse@2", "middle": "middle@1"}
    )
    assert result(runner, top, middle, old, new) == ["new", "old"]


def test_async_dependencies_are_awaited_and_their_spans_keep_their_parents(runner):
    leaf = code(
        "import asyncio\nasync def leaf(n):\n    await asyncio.sleep(0.01 / n)\n    return helper(n)",
        "leaf",
        dependencies={"helper": "helper@1"},
    )
    helper = code("def helper(n):\n    return n * n", "helper")
    entry = code(
        "import asyncio\nasync def f():\n    return await asyncio.gather(*(leaf(n) for n in (1, 2, 3)))",
        dependencies={"leaf": "leaf@1"},
    )
    outcome = run(runner, entry, leaf, helper)
    assert outcome.result == [1, 4, 9]
    by_seq = {span.seq: span for span in outcome.spans}
    helpers = [span for span in outcome.spans if span.function == "helper"]
    assert len(helpers) == 3
    assert all(by_seq[span.parent_seq].input == span.input for span in helpers)


@pytest.mark.parametrize(
    "how",
    [
        "with ThreadPoolExecutor(4) as pool:\n        return list(pool.map(outer, range(4)))",
        "got = {}\n    ts = [Thread(target=lambda n=n: got.update({n: outer(n)})) for n in range(4)]\n"
        "    [t.start() for t in ts]; [t.join() for t in ts]\n    return [got[n] for n in range(4)]",
    ],
)
def test_spans_of_threads_belong_to_the_call_that_started_them(runner, how):
    inner = code("def inner(n):\n    return n", "inner")
    outer = code("def outer(n):\n    return inner(n)", "outer", dependencies={"inner": "inner@1"})
    fan = code(
        f"from concurrent.futures import ThreadPoolExecutor\nfrom threading import Thread\ndef fan():\n    {how}",
        "fan",
        dependencies={"outer": "outer@1"},
    )
    entry = code("def f():\n    return fan()", dependencies={"fan": "fan@1"})
    outcome = run(runner, entry, fan, outer, inner)
    assert outcome.result == [0, 1, 2, 3]
    by_seq = {span.seq: span for span in outcome.spans}
    outers = [span for span in outcome.spans if span.function == "outer"]
    assert all(by_seq[span.parent_seq].function == "fan" for span in outers)
    inners = [span for span in outcome.spans if span.function == "inner"]
    assert all(by_seq[span.parent_seq].input == span.input for span in inners)
    assert len(outers) == len(inners) == 4


def test_a_failing_dependency_raises_its_own_exception_and_the_traceback_shows_only_user_code(runner):
    parse = code(
        "class Wrong(ValueError):\n    detail = {1, 2}\n\ndef parse(text):\n    raise Wrong('bad ' + text)",
        "parse",
        4,
    )
    entry = code(
        """
        def f():
            try:
                parse("row")
            except ValueError as error:
                assert error.detail == {1, 2}
                raise RuntimeError("cannot load") from error
        """,
        version=2,
        dependencies={"parse": "parse@4"},
    )
    outcome = run(runner, entry, parse)
    assert outcome.status == "failed"
    error = outcome.error
    assert (error["type"], error["message"]) == ("RuntimeError", "cannot load")
    assert error["frames"] == [
        {"function": "f", "version": 2, "line": 7, "code": 'raise RuntimeError("cannot load") from error'}
    ]
    for line in (
        '"<functory:parse@4>", line 5, in parse',
        "raise Wrong('bad ' + text)",
        '"<functory:f@2>", line 4, in f',
        "RuntimeError: cannot load",
    ):
        assert line in error["traceback"]
    assert "sandbox" not in error["traceback"]
    assert outcome.spans[0].error == {"type": "Wrong", "message": "bad row"}
    assert outcome.spans[0].output is None


def test_values_pass_between_dependencies_as_they_are_and_are_recorded_as_json_where_they_can_be(runner):
    make = code("class Box: pass\ndef make(s):\n    return [{x for x in s}, Box()]", "make")
    entry = code("def f():\n    return sorted(make({3, 1})[0])", dependencies={"make": "make@1"})
    outcome = run(runner, entry, make)
    assert outcome.result == [1, 3]
    assert outcome.spans[0].input == {"s": [1, 3]}
    recorded, box = outcome.spans[0].output
    assert recorded == [1, 3]
    assert box["$type"] == "Box" and "Box" in box["$preview"]


def test_what_a_span_records_is_the_argument_as_it_was_before_the_call(runner):
    grow = code("def grow(rows):\n    rows.append(1)\n    return rows", "grow")
    entry = code("def f():\n    return grow([])", dependencies={"grow": "grow@1"})
    span = run(runner, entry, grow).spans[0]
    assert (span.input, span.output) == ({"rows": []}, [1])


def test_large_span_values_are_cut_and_too_many_spans_are_counted(runner):
    same = code("def same(x):\n    return x", "same")
    entry = code(
        "def f():\n    same('x' * 5000)\n    for i in range(9):\n        same(i)\n    return 1",
        dependencies={"same": "same@1"},
    )
    outcome = run(runner, entry, same, limits=ChildLimits(span_bytes=2000, spans=4))
    assert outcome.result == 1
    assert [span.input_truncated for span in outcome.spans] == [True, False, False, False]
    assert outcome.spans[0].output_truncated
    assert outcome.spans[0].output["$type"] == "str"
    assert outcome.warnings == ["6 calls after the first 4 were not recorded"]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("float('nan')", "nan is no number of JSON"),
        ("2 ** 64", "an integer beyond 64 bits"),
        ("10 ** 6000", "an integer beyond 64 bits"),
        ("'\\ud800'", "unpaired surrogates"),
        ("Thing()", "a Thing has no JSON form"),
        ("Thing", "the class Thing has no JSON form"),
        ("(i for i in [])", "a generator has no JSON form: return a list of its values"),
        ("b'x' * 65537", "65537 bytes; at most 65536 are taken"),
        ("{(1, 2): 3}", "a key of type tuple"),
        ("{1: 'a', '1': 'b'}", "two keys read '1' as text"),
    ],
)
def test_a_result_without_a_json_form_is_an_error_that_names_its_place(runner, expression, reason):
    source = f"""
class Thing:
    def __repr__(self): raise ValueError("no")
def f(nested):
    value = {expression}
    return {{"rows": [1, {{"when": value}}]}} if nested else value
"""
    for nested, place in ((False, "$"), (True, "$.rows[1].when")):
        outcome = run(runner, source, input={"nested": nested})
        assert (outcome.status, outcome.result) == ("not_serializable", None), outcome
        assert outcome.error["type"] == "NotSerializable"
        assert f"at {place}" in outcome.error["message"]
        assert reason in outcome.error["message"]


def test_python_values_with_a_plain_json_form_take_it(runner):
    source = """
        import enum
        from collections import OrderedDict, namedtuple
        class Colour(enum.IntEnum):
            RED = 1
        class Name(str): pass
        def f():
            return [(1, 2), namedtuple("P", "x y")(1, 2), OrderedDict(a=1), Colour.RED, Name("n"), {1: "a", None: "b"}]
        """
    outcome = run(runner, source)
    assert outcome.result == [[1, 2], [1, 2], {"a": 1}, 1, "n", {"1": "a", "null": "b"}]
    assert outcome.warnings == ["at $[5]: the key 1 became text", "at $[5]: the key null became text"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a = []\n    a.append(a)\n    return a", "at $[0]: a reference to something that contains it"),
        ("a = []\n    for _ in range(5000): a = [a]\n    return a", "nested deeper than"),
    ],
)
def test_cycles_and_depth_in_a_result_are_errors(runner, body, reason):
    outcome = run(runner, f"def f():\n    {body}")
    assert outcome.status == "not_serializable"
    assert reason in outcome.error["message"]


def test_a_result_over_the_limit_is_an_error_of_its_own(runner):
    outcome = run(runner, "def f():\n    return 'x' * 2000", limits=ChildLimits(result_bytes=1000))
    assert outcome.status == "output_too_large"
    assert "1000" in outcome.error["message"]
    shared = "def f():\n    a = [1]\n    for _ in range(60): a = [a, a]\n    return a"
    assert run(runner, shared).status == "output_too_large"


def test_input_that_msgpack_cannot_hold_arrives_unharmed(runner):
    given = {"big": -(2**70), "text": "\ud800\0", "deep": [{"\udfff": 2**65}]}
    source = "def f(big, text, deep):\n    return [str(big), ascii(text), ascii(deep)]"
    assert result(runner, source, input=given) == [
        str(-(2**70)),
        "'\\ud800\\x00'",
        "[{'\\udfff': 36893488147419103232}]",
    ]


def test_input_that_is_no_json_at_all_fails_without_starting(runner):
    outcome = run(runner, "def f(x): pass", input={"x": object()})
    assert (outcome.status, outcome.error["type"], outcome.pid) == ("failed", "Invalid", None)


def test_unknown_names_in_annotations_stop_nothing(runner):
    assert result(runner, "def f(x: Optional[Missing]) -> 'Nowhere':\n    return x", input={"x": 1}) == 1


def test_a_dataclass_and_the_declared_imports_work_in_function_source(runner):
    source = """
        import dataclasses
        @dataclasses.dataclass
        class Row:
            n: int
            kind: "ClassVar[int]" = 1
        def f():
            return [json.dumps(dataclasses.asdict(Row(2))), m.floor(1.5), join("a", "b")]
        """
    entry = code(source, imports=("json", "math as m", "from os.path import join"))
    assert result(runner, entry) == ['{"n": 2, "kind": 1}', 1, "a/b"]
    wrong = run(runner, code("def f(): pass", imports=("json; print(1)",)))
    assert wrong.error["message"] == "'json; print(1)' is not an import"


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("def f(:\n    pass", "SyntaxError", 1),
        ("def g(): pass", "NameError", None),
        ("x = 1\ny = x / 0\ndef f(): pass", "ZeroDivisionError", 2),
    ],
)
def test_source_that_cannot_be_loaded_fails_and_says_where(runner, source, kind, line):
    outcome = run(runner, source)
    assert (outcome.status, outcome.error["type"]) == ("failed", kind)
    assert [frame["line"] for frame in outcome.error["frames"]] == ([line] if line else [])


def test_registering_decorators_do_nothing_and_triggers_are_refused(runner):
    source = """
        from functory import register, register_function
        @register_function(imports=["json"], metadata={"a": 1})
        def g(): return 1
        @register_function
        def f(): return g(), register()
        """
    assert result(runner, source) == [1, None]
    outcome = run(runner, "from functory import register_trigger\nregister_trigger('x')\ndef f(): pass")
    assert outcome.error["type"] == "functory.Refused"
    assert "register_trigger does not work inside a running function" in outcome.error["message"]


def test_the_execution_knows_itself(runner):
    source = """
        from functory import execution as e
        def f():
            return [e.id, e.attempt, e.root_id, e.depth, e.parent_id, e.triggered_by, e.function, e.version]
        """
    fields = {"attempt": 2, "depth": 3, "parent_execution_id": "p", "triggered_by": "ev"}
    assert result(runner, source, **fields) == ["e-1", 2, "r-1", 3, "p", "ev", "f", 1]


def test_random_numbers_follow_the_seed(runner):
    source = "import random\ndef f():\n    return random.random()"
    first, same, other = (result(runner, source, seed=seed) for seed in (1, 1, 2))
    assert first == same != other


def test_the_child_starts_with_nothing_of_the_worker(runner, monkeypatch):
    source = """
        import os, sys
        def f():
            fds = sorted(int(n) for n in os.listdir("/proc/self/fd"))
            return {"env": sorted(os.environ), "fds": fds[:4], "more": len(fds), "cwd": os.listdir("."),
                    "stdin": sys.stdin.read(), "home": os.path.samefile(os.environ["HOME"], "."),
                    "session": os.getsid(0) == os.getpid() == os.getpgid(0), "argv": sys.argv}
        """
    got = result(runner, source)
    assert not [name for name in got["env"] if name.startswith("FUNCTORY") or "SECRET" in name]
    assert set(got["env"]) <= {
        "HOME",
        "LANG",
        "LC_CTYPE",
        "MALLOC_ARENA_MAX",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PWD",
        "TMPDIR",
    }
    # 0-3, the handle of the null device that sys.stdin reads, and the one that lists the folder.
    assert got["fds"] == [0, 1, 2, 3] and got["more"] <= 6
    assert (got["cwd"], got["stdin"], got["home"], got["session"], got["argv"]) == (
        [],
        "",
        True,
        True,
        ["functory"],
    )
