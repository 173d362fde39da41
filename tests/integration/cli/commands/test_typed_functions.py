"""Functions with classes in their hints are saved and run from the command line, and from a program of their own."""

from __future__ import annotations

import datetime
import importlib.util
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.errors import ExecutionFailed, Invalid
from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

SOURCE = '''from __future__ import annotations

import dataclasses
import datetime
import enum
import typing
from decimal import Decimal

from functory import Naive

LIMIT = Decimal("100")


class Currency(enum.Enum):
    EURO = "EUR"
    DOLLAR = "USD"


class Note(typing.TypedDict):
    text: str


@dataclasses.dataclass
class Line:
    """One line of an order."""

    price: Decimal
    notes: "list[Note]"
    parent: "Line | None" = None


class Unused:
    pass


'''
FUNCTION = '''def total(
    lines: list[Line],
    currency: Currency = Currency.EURO,
    due: datetime.date = datetime.date(2026, 3, 1),
    at: "Naive[datetime.datetime] | None" = None,
    most: Decimal | None = None,
):
    """Adds up an order."""
    amount = min(sum(line.price for line in lines), most or LIMIT)
    return {"amount": amount, "currency": currency, "due": due, "at": at, "first": lines[0]}
'''
LINE = {"price": "1.50", "notes": [{"text": "a"}], "parent": None}


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    """A command line with a database of its own."""
    return Shell(tmp_path, database=migrated_file)


def test_a_function_with_classes_in_its_hints_is_saved_and_run(shell: Shell) -> None:
    (shell.folder / "total.py").write_text(SOURCE + FUNCTION)
    assert shell.run("function", "add", str(shell.folder / "total.py")).stderr == ""
    schema = shell.json("function", "show", "total")["input_schema"]
    assert schema["required"] == ["lines"]
    assert schema["properties"]["currency"] == {"$ref": "#/$defs/Currency", "default": "EUR"}
    assert schema["properties"]["due"] == {"type": "string", "format": "date", "default": "2026-03-01"}
    assert schema["$defs"]["Line"]["description"] == "One line of an order."
    given = ["--input", f"lines=[{LINE}]".replace("'", '"').replace("None", "null")]
    given += ["--input", "currency=USD", "--input", "most=1.20", "--input", "at=2026-01-02T03:04:05"]
    assert shell.json("function", "run", "total", *given)["result"] == {
        "amount": "1.20",
        "currency": "USD",
        "due": "2026-03-01",
        "at": "2026-01-02T03:04:05",
        "first": LINE,
    }
    refused = shell.run("function", "run", "total", *given[:2], "--input", "currency=YEN", status=2).stderr
    assert "currency" in refused and '"EUR"' in refused
    failed = shell.run("function", "run", "total", *given[:2], "--input", "due=soon", status=1).stderr
    assert "Invalid RFC3339 encoded date - at `$.due`" in failed


def test_a_function_with_a_hint_without_a_json_form_is_saved_and_not_active(shell: Shell) -> None:
    (shell.folder / "clean.py").write_text("class Frame: ...\n\ndef clean(rows: Frame):\n    return rows\n")
    said = shell.run("function", "add", str(shell.folder / "clean.py"), status=1)
    assert said.stdout.startswith("saved clean v1")
    assert "parameter 'rows': a Frame has no JSON form (unconvertible_type)" in said.stderr
    assert "clean v1 cannot run as an execution" in said.stderr
    shell.run("function", "activate", "clean@1", "--force")


@pytest.fixture
def total(tmp_path: Path, engine: Functory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a program that registers the function."""
    file = tmp_path / "orders_of_a_test.py"
    decorated = FUNCTION.replace("def total", "@register_function(retries=3)\ndef total")
    file.write_text(SOURCE.replace("import Naive", "import Naive, register_function") + decorated)
    import functory

    functory.use(engine)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    yield module
    functory.use(None)


def test_a_registered_function_takes_and_stores_the_classes_of_its_file(engine: Functory, total: Any) -> None:
    source = engine.functions.get("total")["source"]
    assert "class Unused" not in source
    lines = [total.Line(Decimal("1.50"), [{"text": "a"}], total.Line(Decimal(2), []))]
    result = engine.call("total", lines, total.Currency.DOLLAR, at=datetime.datetime(2026, 1, 2))
    assert result == {
        "amount": "1.50",
        "currency": "USD",
        "due": "2026-03-01",
        "at": "2026-01-02T00:00:00",
        "first": LINE | {"parent": {"price": "2", "notes": [], "parent": None}},
    }


def test_an_argument_that_does_not_fit_is_an_error_once_with_its_place(engine: Functory, total: Any) -> None:
    with pytest.raises(ExecutionFailed, match=r"no timezone component - at `\$\.at`"):
        engine.call("total", [LINE], at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    (row,) = engine.executions.list(function="total")
    assert (row["attempt"], row["error"]["type"]) == (1, "InvalidInput")
    with pytest.raises(Invalid, match=r"(?s)input of total v1.*lines\.0\.price"):
        engine.call("total", [{"price": 1.5, "notes": []}])
    with pytest.raises(Invalid, match=r"at \$\.lines\[0\]: an object has no JSON form"):
        engine.call("total", [object()])
