"""Modules of one's own are a part of a version: stored with it, hashed with it, run with it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import Invalid
from functory.engine.settings import Settings
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

TEXT = "from shop.money import price\ndef work():\n    return price()\n"
SHOP = {"shop.money": "def price():\n    return 1\n", "unused": "X = 1\n"}
NEWER = {"shop.money": "def price():\n    return 2\n"}


def test_a_changed_module_makes_a_new_version_and_an_unused_one_does_not(world: World) -> None:
    first = world.functions.save(TEXT, modules=SHOP)
    assert world.functions.save(TEXT, modules=SHOP | {"unused": "X = 2\n"})["created"] is False
    second = world.functions.save(TEXT, modules=NEWER)
    assert (second["number"], second["sha256"] != first["sha256"]) == (2, True)
    assert list(world.functions.get("work", 1)["modules"]) == ["shop.money"]
    (event,) = world.rows(schema.event, schema.event.c.type == "function.updated")
    assert event["data"]["changed"] == ["modules"]


def test_versions_share_the_rows_of_equal_modules(world: World) -> None:
    world.functions.save(TEXT, modules=SHOP)
    world.functions.save(TEXT + "# more\n", modules=SHOP)
    assert [row["source"] for row in world.rows(schema.module)] == [SHOP["shop.money"]]
    assert len(world.rows(schema.version_module)) == 2


def test_a_partial_change_keeps_the_modules(world: World) -> None:
    world.functions.save(TEXT, modules=SHOP)
    kept = world.functions.update("work", metadata={"team": "data"})
    assert list(world.functions.get("work")["modules"]) == ["shop.money"]
    assert kept["number"] == 2
    without = world.functions.update("work", source="def work():\n    return 3\n")
    assert (without["number"], world.functions.get("work")["modules"]) == (3, {})


def test_the_claim_has_the_modules_of_a_version_and_of_its_dependencies(world: World) -> None:
    world.functions.save(TEXT, modules=SHOP)
    world.functions.save("def outer():\n    return work()\n", dependencies=["work"])
    claim = world.claim(world.start("outer"))
    assert {key: dict(code.modules) for key, code in claim.codes.items()} == {
        "outer@1": {},
        "work@1": {"shop.money": SHOP["shop.money"]},
    }


def test_a_module_with_the_name_of_a_standard_one_is_refused_at_the_save(world: World) -> None:
    with pytest.raises(Invalid, match="the module random has a name that Python has already"):
        world.functions.save("import random\ndef work():\n    return 1\n", modules={"random": ""})


def test_what_a_module_may_not_do_is_a_finding(world: World) -> None:
    lib = {
        "lib": "import subprocess, six\nfrom . import lib2\ndef run():\n    subprocess.run(['ls'])\n",
        "lib2": "",
    }
    row = world.functions.save(
        "import lib\ndef work(s):\n    return lib.run()\n", modules=lib, secrets=["KEY"]
    )
    found = sorted((f["kind"], f["message"].split("\n")[0]) for f in row["findings"])
    assert found == [
        ("subprocess", "lib, line 4: subprocess.run is used"),
        ("undeclared_import", "lib, line 1: the package six is not declared"),
    ]
    assert row["imports"] == []


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Functory]:
    with Functory(Settings(home=tmp_path)).start() as engine:
        yield engine


def test_a_function_runs_with_its_modules(engine: Functory) -> None:
    row = engine.functions.save(TEXT, modules=SHOP)
    assert row["inactive_reason"] is None
    assert run(engine) == 1
    engine.functions.save(TEXT, modules=NEWER)
    assert run(engine) == 2
    broken = engine.functions.save(TEXT, modules={"shop.money": "import nosuch\n"})
    assert "No module named 'nosuch'" in broken["inactive_reason"]


def run(engine: Functory) -> Any:
    return engine.call("work")


def test_the_decorator_takes_modules_from_a_folder_beside_the_file(
    engine: Functory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "prices.py").write_text("PRICE = 3\n")
    (tmp_path / "stock.py").write_text("from prices import PRICE\n\ndef work():\n    return PRICE\n")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.syspath_prepend(tmp_path)
    engine.register_function(importlib.import_module("stock").work, lib="lib")
    assert engine.call("work") == 3
