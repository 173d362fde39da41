"""The decorators of the package declare; the first use of the engine of the process, or `register()`, saves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient

SHOP = """\
from functory import register_function, register_trigger

@register_function(timeout=5)
def price(sku: str) -> int:
    return len(sku)

@register_function(dependencies=["price"])
def total(sku: str, count: int) -> int:
    return price(sku) * count

priced = register_trigger(
    "priced", on={"type": ["sku.found"]}, function="price", input={"sku": "{{ event.data.sku }}"}
)
"""


def run(folder: Path, program: str, *, file: str = "program.py") -> tuple[int, str, str]:
    """Run a program in a process of its own, with the settings of its folder alone. Returns status, stdout, stderr."""
    (folder / file).write_text(program)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    done = subprocess.run(
        [sys.executable, file],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=patient(60.0),
        check=False,
    )
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_an_import_of_a_decorated_module_and_a_plain_call_write_nothing(folder: Path) -> None:
    program = "import functory, shop\nprint(shop.price('A1'), hasattr(functory, 'nothing'), shop.priced)\n"
    assert run(folder, program) == (0, "2 False <trigger priced, declared>", "")
    assert not (folder / ".functory").exists()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("functory.call('total', 'A1', 3)", "6"),
        ("functory.total('A1', 3)", "6"),
        ("functory.submit('price', 'A1').result()", "2"),
        ("bool(functory.emit('sku.found', {'sku': 'A1'}))", "True"),
        ("[one['name'] for one in functory.functions.list()]", "['price', 'total']"),
        ("shop.priced['version'], dict(shop.priced)['name']", "1 priced"),
        ("functory.register()", "None"),
        ("functory.Functory().call('price', 'A1')", "2"),
    ],
)
def test_the_first_use_saves_all_that_is_declared_once(folder: Path, use: str, said: str) -> None:
    program = f"""
import functory, shop
print({use})
engine = functory.engine_of_process()
functory.register()
print([(one["name"], one["latest"]) for one in engine.functions.list()])
print([(one["name"], one["version"]) for one in engine.triggers.list()])
print(shop.price.functory_version)
engine.close()
"""
    code, out, errors = run(folder, program)
    assert (code, errors) == (0, "")
    assert out.splitlines() == [said, "[('price', 1), ('total', 1)]", "[('priced', 1)]", "1"]


def test_declarations_are_saved_in_their_order(folder: Path) -> None:
    program = """
import functory, shop
from functory import register_function, register_trigger

pattern = {"type": ["late"]}
register_trigger("late", on=pattern, function="price", input={"sku": "x"})
pattern["type"] = ["changed afterwards"]

@register_function
def last() -> int:
    return 1

functory.register()
rows = functory.engine_of_process().events.list()
kinds = ("function.created", "trigger.created")
print([row["subject"] for row in sorted(rows, key=lambda row: row["id"]) if row["type"] in kinds])
print(functory.engine_of_process().triggers.get("late")["definition"]["on"])
"""
    code, out, errors = run(folder, program)
    assert (code, errors) == (0, "")
    assert out.splitlines() == ["['price', 'total', 'priced', 'late', 'last']", "{'type': ['late']}"]


@pytest.mark.parametrize(
    ("declaration", "refused"),
    [
        ("@register_function(timeout=-1)\ndef f(): ...", "timeout"),
        ("@register_function(colour=1)\ndef f(): ...", "unknown fields of a function: colour"),
        ("class A:\n    @register_function\n    def f(self): ...", "f is a method of the class A"),
        ("@register_function\ndef call(): ...", "the name call is reserved"),
        ("def g(): ...\n@register_function\ndef f(): return g()", "f uses the function g"),
        ("register_trigger('t', on={'type': ['a']})", "the trigger has no 'function'"),
        ("register_trigger('t', on={'type': 'a'}, function='f')", "Invalid"),
        ("register_trigger(on={'type': ['a']}, function='f')", "the trigger has no name"),
        ("register_trigger('t', on={'type': ['a']}, function='f', when='1 +')", "Invalid"),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(tmp_path: Path, declaration: str, refused: str) -> None:
    program = f"from functory import register_function, register_trigger\n{declaration}\nprint('went on')\n"
    code, out, errors = run(tmp_path, program)
    assert (code, out) == (1, "")
    assert refused in errors
    assert not (tmp_path / ".functory").exists()


def test_what_cannot_be_saved_is_named_by_its_place_and_the_others_are_saved(folder: Path) -> None:
    program = """
import functory
from functory import register_trigger
register_trigger("lost", on={"type": ["a"]}, function="price", input={"sku": "x"}, expected_version=1)
import shop
for attempt in range(2):
    try:
        functory.register()
    except functory.FunctoryError as error:
        print(type(error).__name__, "program.py, line 4: trigger lost: " in str(error))

from functory.engine.settings import load_settings
with functory.Functory(load_settings()) as other:
    print(sorted(one["name"] for one in other.functions.list()), [one["name"] for one in other.triggers.list()])
    other.register_trigger("lost", on={"type": ["b"]}, function="price", input={"sku": "x"})
functory.register()
print(functory.engine_of_process().triggers.get("lost")["definition"]["on"])
"""
    code, out, errors = run(folder, program)
    assert code == 0, errors
    assert out.splitlines() == [
        "VersionChanged True",
        "VersionChanged True",
        "['price', 'total'] ['priced']",
        "{'type': ['a']}",
    ]


def test_an_engine_with_settings_of_its_own_gets_what_is_declared_by_use(folder: Path) -> None:
    program = """
import functory, shop
from functory.engine.settings import load_settings

with functory.Functory(load_settings()) as own:
    print([one["name"] for one in own.functions.list()])
    print(functory.use(own), [one["name"] for one in own.functions.list()], functory.call("price", "A1"))
    functory.use(None)
"""
    code, out, errors = run(folder, program)
    assert (code, errors) == (0, "")
    assert out.splitlines() == ["[]", "None ['price', 'total'] 2"]


def test_an_engine_that_cannot_save_what_is_declared_is_not_opened(folder: Path) -> None:
    program = """
import functory
from functory import register_trigger
register_trigger("lost", on={"type": ["a"]}, function="price", input={"sku": "x"}, expected_version=1)
import shop
try:
    functory.Functory()
except functory.FunctoryError as error:
    print(type(error).__name__, "program.py, line 4: trigger lost: " in str(error))
"""
    code, out, errors = run(folder, program)
    assert (code, out) == (0, "VersionChanged True")
    assert "declared, but not saved: trigger lost" in errors


def test_threads_that_use_the_engine_first_at_once_find_all_that_is_declared(folder: Path) -> None:
    program = """
import threading
from concurrent.futures import ThreadPoolExecutor
import functory, shop

together = threading.Barrier(4)

def use(sku):
    together.wait()
    return functory.call("total", sku, 1)

with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(use, ["a", "bb", "ccc", "dddd"])))
print([one["latest"] for one in functory.engine_of_process().functions.list()])
"""
    code, out, errors = run(folder, program)
    assert (code, errors) == (0, "")
    assert out.splitlines() == ["[1, 2, 3, 4]", "[1, 1]"]


def test_a_declaration_after_the_first_use_is_saved_at_once(folder: Path) -> None:
    program = """
import functory
engine = functory.engine_of_process()
import shop
print(shop.price.functory_version, shop.priced["version"], len(engine.functions.list()))
"""
    assert run(folder, program) == (0, "1 1 2", "")


def test_a_script_that_saves_nothing_of_what_it_declares_says_so_at_its_end(folder: Path) -> None:
    code, out, errors = run(folder, SHOP)
    assert (code, out) == (0, "")
    assert (
        "program.py:3: UserWarning: declared, but not saved: function price, function total, trigger priced"
        in errors
    )
    assert "functory.register()" in errors
    assert run(folder, SHOP + "from functory import register\nregister()\n") == (0, "", "")
