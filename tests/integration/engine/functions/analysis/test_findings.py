"""Findings with a version: made when it is saved, counted, shown, read from inside, refused by a policy."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from functory.cli.main import main
from functory.engine.errors import Invalid, NotFound
from functory.engine.functions.registry import Functions

pytest_plugins = ["tests.support.world"]

BAD = "import os\ndef work(text):\n    import numpy\n    os.system('id')\n    os.system('ls')\n"


def kinds(row) -> list[str]:
    return [finding["kind"] for finding in row["findings"]]


def test_a_version_carries_the_findings_of_its_source(world):
    saved = world.functions.save(BAD)
    assert kinds(saved) == ["undeclared_import", "subprocess", "subprocess"]
    first = world.functions.get("work")["findings"][0]
    assert (first["severity"], first["line"], first["column"], first["detail"]) == ("warning", 3, 4, "numpy")
    assert first["message"].startswith("the package numpy is not declared\n")
    assert kinds(world.function("parse")) == []


def test_findings_are_no_content_and_make_no_version(world):
    world.functions.save(BAD)
    assert world.functions.save(BAD)["created"] is False


def test_what_is_declared_later_changes_the_findings_and_the_old_version_keeps_its_own(world):
    world.functions.save("from functory import secret\ndef work(): return secret('KEY')\n")
    changed = world.functions.update("work", secrets=["KEY"])
    assert kinds(changed) == []
    assert kinds(world.functions.get("work", 1)) == ["undeclared_secret"]
    assert kinds(world.functions.update("work", source="def work(): ...\n")) == ["unused_secret"]


def test_a_change_that_was_overtaken_is_read_again(world):
    text = "from functory import secret\ndef work(): return secret('KEY')\n"
    world.functions.save(text)

    def meanwhile(source, name, *, packages=(), modules=None):
        world.functions.update(name, secrets=["KEY"])
        return SimpleNamespace(
            input_schema={}, output_schema=None, problems=[], import_error=None, unconvertible=[]
        )

    late = Functions(world.database, meanwhile, world.settings)
    assert kinds(late.update("work", source=text + "# again\n")) == []


def test_a_package_that_is_imported_and_not_declared_is_reported(world):
    text = "import numpy\ndef work(): return numpy.zeros(3).tolist()\n"
    assert kinds(world.functions.save(text)) == ["undeclared_import"]
    assert kinds(world.functions.save(text, imports=["numpy"])) == []
    assert kinds(world.functions.save(text, requirements=["numpy>=2"])) == []


def test_the_event_has_numbers_only(world):
    world.functions.save(BAD)
    [event] = [event for event in world.events.list(payloads=True) if event["type"] == "function.created"]
    assert event["data"]["findings"] == {"subprocess": 2, "undeclared_import": 1}


def test_a_kind_that_the_operator_refuses_is_not_saved(world):
    strict = Functions(
        world.database, settings=world.settings.model_copy(update={"refuse_findings": ["undeclared_import"]})
    )
    with pytest.raises(
        Invalid,
        match=r"(?s)work has a finding that is refused here: undeclared_import\nline 3: .*refuse_findings",
    ):
        strict.save(BAD)
    with pytest.raises(NotFound):
        world.functions.get("work")
    assert world.types("function.") == []
    assert strict.save("import os\ndef work(): os.system('id')\n")["number"] == 1
    with pytest.raises(Invalid, match="refused here: undeclared_import"):
        strict.update("work", source=BAD)
    assert strict.get("work")["number"] == 1


def test_a_version_that_was_there_before_the_policy_can_still_be_activated(world):
    world.functions.save(BAD)
    world.functions.save("def work(text): return text\n")
    strict = Functions(
        world.database, settings=world.settings.model_copy(update={"refuse_findings": ["warning"]})
    )
    assert strict.rollback("work")["number"] == 1
    assert strict.save(BAD)["created"] is False


def test_a_policy_with_an_unknown_kind_is_refused_at_the_start(world):
    wrong = world.settings.model_copy(update={"refuse_findings": ["evil"]})
    with pytest.raises(Invalid, match="unknown kind of finding 'evil'"):
        Functions(world.database, settings=wrong)


def test_code_reads_the_findings_of_stored_functions(engine):
    engine.functions.save(BAD)
    text = "from functory import functions\ndef look(): return [f['kind'] for f in functions.get('work')['findings']]\n"
    engine.functions.save(text, permissions=["functions:read"])
    assert engine.call("look") == ["undeclared_import", "subprocess", "subprocess"]


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUNCTORY_HOME", str(tmp_path / "home"))
    (tmp_path / "work.py").write_text(BAD)

    def run(*arguments: str) -> tuple[str, str]:
        status = main(arguments)
        out, err = capsys.readouterr()
        assert status == 0, err
        return out, err

    return run


def test_saving_tells_what_was_found_and_showing_explains_each_kind_once(cli):
    said = cli("function", "add", "work.py")[1]
    assert "warning: line 3: the package numpy is not declared (undeclared_import)" in said
    assert "functory function show work@1" in said
    shown = cli("function", "show", "work")[0]
    assert "warning  line 3: the package numpy is not declared (undeclared_import)" in shown
    assert "warning  line 5: os.system is used (subprocess)" in shown
    assert shown.count("starts no other programs") == 1
    stored = json.loads(cli("function", "show", "work", "--json")[0])["findings"]
    assert [finding["line"] for finding in stored] == [3, 4, 5]


def test_a_clean_function_says_nothing_about_findings(cli, tmp_path):
    (tmp_path / "work.py").write_text("def work(text): return text\n")
    assert "show work" not in cli("function", "add", "work.py")[1]
    assert "findings" not in cli("function", "show", "work")[0]


def test_an_imported_pack_is_held_to_the_policy_too(cli, monkeypatch):
    pack = Path(__file__).parents[4] / "data" / "st2_pack"
    monkeypatch.setenv("FUNCTORY_REFUSE_FINDINGS", '["dynamic_secret"]')
    out, _ = cli("pack", "import", "stackstorm", str(pack))
    assert "warehouse_order has a finding that is refused here: dynamic_secret" in out
    monkeypatch.setenv("FUNCTORY_REFUSE_FINDINGS", '["generator"]')
    assert "refused here" not in cli("pack", "import", "stackstorm", str(pack))[0]
