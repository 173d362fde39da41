"""Modules of one's own: imported from memory, by the version that they belong to and by no other."""

from __future__ import annotations

import pytest

from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, code, job

SHOP = {
    "shop.__init__": "from .money import round_up\nRATE = 2\n",
    "shop.money": "from shop import tax\n\n\ndef round_up(value):\n    return -(-value // 1) * tax.RATE\n",
    "shop.tax": "RATE = 10\n",
    "plain.names": "def fails():\n    raise ValueError('no price')\n",
}


@pytest.fixture(scope="module")
def runner():
    with Runner() as made:
        yield made


def result(runner, entry, *dependencies, **fields):
    outcome = runner.run(job(entry, *dependencies, **fields), FakeHost())
    assert outcome.status == "succeeded", outcome
    return outcome.result


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("from shop.money import round_up\ndef f():\n    return round_up(1.5)", 20),
        ("import shop.money\ndef f():\n    return shop.money.round_up(1), shop.RATE", [10, 2]),
        ("import shop.money as m\ndef f():\n    return m.tax.RATE", 10),
        ("from shop import money, round_up\ndef f():\n    return money.round_up is round_up", True),
        ("from shop import *\ndef f():\n    return RATE", 2),
        ("import importlib\ndef f():\n    return importlib.import_module('shop.tax').RATE", 10),
        ("import plain\nimport plain.names\ndef f():\n    return plain.names.fails.__name__", "fails"),
        ("import inspect\nimport shop.tax\ndef f():\n    return inspect.getsource(shop.tax)", "RATE = 10\n"),
    ],
)
def test_a_version_imports_its_modules_as_python_does(runner, source, value):
    assert result(runner, code(source, modules=SHOP)) == value


def test_versions_with_different_modules_of_one_name_live_side_by_side(runner):
    source = "from rate import RATE\ndef {0}():\n    import rate\n    return [RATE, rate.RATE]"
    old = code(source.format("old"), "old", modules={"rate": "RATE = 1\n"})
    entry = "from rate import RATE\ndef f():\n    import rate\n    return [RATE, rate.RATE, *old(), *plain()]"
    plain = code(
        "def plain():\n    try:\n        import rate\n    except ModuleNotFoundError as e:\n        return [str(e)]",
        "plain",
    )
    own = code(entry, modules={"rate": "RATE = 2\n"}, dependencies={"old": "old@1", "plain": "plain@1"})
    assert result(runner, own, old, plain) == [2, 2, 1, 1, "No module named 'rate'"]


def test_a_package_of_the_environment_does_not_take_the_place_of_a_module(runner, tmp_path):
    (tmp_path / "rate.py").write_text("RATE = 'package'")
    tmp_path.chmod(0o755)
    own = code("from rate import RATE\ndef f():\n    return RATE", modules={"rate": "RATE = 'own'\n"})
    assert result(runner, own, packages=(str(tmp_path),), preload=("rate",)) == "own"


def test_a_traceback_shows_the_lines_of_modules(runner):
    own = code("from plain.names import fails\ndef f():\n    fails()", modules=SHOP)
    error = runner.run(job(own), FakeHost()).error
    assert "raise ValueError('no price')" in error["traceback"]
    assert 'File "<functory:f@1/plain/names.py>", line 2, in fails' in error["traceback"]
    assert "own_modules" not in error["traceback"]
    assert [(frame["line"], frame.get("module")) for frame in error["frames"]] == [
        (3, None),
        (2, "plain/names.py"),
    ]


def test_a_missing_module_is_named_as_the_source_names_it(runner):
    own = code("import shop.nothing\ndef f():\n    pass", modules=SHOP)
    outcome = runner.run(job(own), FakeHost())
    assert (outcome.error["type"], outcome.error["message"]) == (
        "ModuleNotFoundError",
        "No module named 'shop.nothing'",
    )


def test_a_warm_child_keeps_its_modules_and_serves_no_version_with_others(runner):
    source = "import count\ndef f():\n    count.SEEN.append(1)\n    return [len(count.SEEN), count.NAME]"
    one = code(source, modules={"count": "SEEN, NAME = [], 1\n"})
    other = code(source, modules={"count": "SEEN, NAME = [], 2\n"})
    answers = [result(runner, own, reuse=True) for own in (one, one, other)]
    assert answers == [[1, 1], [2, 1], [1, 2]]


def test_an_inspection_imports_the_modules_too(runner):
    source = "from shop.money import Price\ndef f(price: Price) -> int:\n    return 1"
    found = runner.inspect(source, "f", modules={"shop.money": "Price = int\n"})
    assert (found.import_error, found.input_schema["properties"]) == (None, {"price": {"type": "integer"}})
    assert "No module named 'shop'" in (runner.inspect(source, "f").import_error or "")
