"""A pack of StackStorm comes along: its rules fire, its actions run, and the report names what stays behind."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.engine.flow_control import trigger_row
from functory.engine.settings import Settings
from functory.engine.sources.webhooks import Webhooks
from functory.packs.stackstorm.pack import read_pack
from functory.triggers import definition
from functory.triggers.sources.webhooks.receiver import WebhookReceiver
from functory.triggers.sources.webhooks.request import Request
from tests.support.cli_shell import Shell
from tests.support.waiting import wait_for

DATA = Path(__file__).parents[1] / "data"
RUN = "    def run(self):\n        pass\n"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "st2_pack", tmp_path / "pack"))


pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    return Shell(tmp_path, database=migrated_file)


def imported(shell: Shell, *options: str) -> dict[str, Any]:
    """The report's entries by file."""
    report = shell.json("pack", "import", "stackstorm", "pack", *options)
    return {entry["file"]: entry for entry in report["entries"]}


def results(shell: Shell, function: str) -> list[Any]:
    rows = shell.json("execution", "list", "--full")
    assert [row["state"] for row in rows if row["function"] == function and row["state"] != "succeeded"] == []
    return [row["result"] for row in rows if row["function"] == function]


def low(**item: Any) -> str:
    return json.dumps({"item": {"kind": "SCREW", "sku": "A-1", "stock": 3, "tags": ["steel"], **item}})


def test_a_rule_fires_its_action_runs_and_the_rule_on_its_end_follows(shell: Shell, pack: Path):
    imported(shell)
    shell.run("event", "emit", "warehouse.stock_low", "--data", low(), "--wait")
    (ordered,) = results(shell, "warehouse_order")
    order = {"supplier": "Muster GmbH", "sku": "A-1", "amount": 7}
    assert ordered == {"order": order, "note": "only 3 left", "urgent": False}
    (audited,) = results(shell, "warehouse_audit")
    assert audited == {
        "line": "warehouse_order: succeeded",
        "text": "two\nlines",
        "result": ordered,
        "seen": 1,
    }


@pytest.mark.parametrize(
    "item",
    [
        {"kind": "nail"},
        {"stock": 5},
        {"stock": 0},
        {"tags": ["discontinued"]},
        {"tags": None},
        {"stock": "3"},
    ],
)
def test_criteria_keep_an_event_from_firing(shell: Shell, pack: Path, item: dict[str, Any]):
    imported(shell)
    shell.run("event", "emit", "warehouse.stock_low", "--data", low(**item), "--wait")
    assert results(shell, "warehouse_order") == []


def test_the_reason_why_an_event_did_not_fire_has_the_words_of_the_rule(shell: Shell, pack: Path):
    imported(shell)
    id_ = shell.out(
        "event", "emit", "warehouse.stock_low", "--data", low(tags=["discontinued"]), "--wait", "-q"
    )
    answer = next(a for a in shell.json("event", "why", id_) if a["trigger"] == "warehouse.order_low_stock")
    assert "trigger.item.tags" in answer["reason"]
    assert 'does not contain "discontinued"' in answer["reason"]


def test_criteria_are_indexed_where_a_pattern_can_say_them(shell: Shell, pack: Path):
    imported(shell)
    stored = shell.json("trigger", "show", "warehouse.order_low_stock")["definition"]
    assert stored["on"] == {"type": ["warehouse.stock_low"]}
    compiled = definition.compile_definition(
        trigger_row.from_mapping({"id": "", "name": "x", "version": 1, "definition": stored})
    )
    paths = {requirement.path for branch in compiled.pattern.branches for requirement in branch.requirements}
    assert paths == {"type", "data.item.kind", "data.item.stock"}


def test_an_action_that_returns_false_fails_and_secrets_are_asked_for(shell: Shell, pack: Path):
    entries = imported(shell)
    failed = shell.run(
        *(
            "run",
            "warehouse_audit",
            "--input",
            "status=nonsense",
            "--input",
            "name=x",
            "--input",
            "result={}",
        ),
        status=None,
    )
    assert failed.returncode == 1
    assert "a status that is none" in failed.stderr
    (need,) = entries["actions/call_supplier.yaml"]["needs"]
    assert (need["kind"], need["try"]) == ("secret", "functory secret set WAREHOUSE_API_KEY")
    shell.run("secret", "set", "WAREHOUSE_API_KEY", stdin="sesame\n")
    assert imported(shell)["actions/call_supplier.yaml"]["outcome"] == "runs"
    assert "calling Muster GmbH with a key of 6 characters" in shell.out("run", "warehouse_call_supplier")


def test_the_report_names_everything_and_why_it_stays_behind(shell: Shell, pack: Path):
    entries = imported(shell)
    outcomes = {file: (entry["outcome"], entry["why"]) for file, entry in entries.items()}
    for file, outcome, why in [
        ("actions/order.yaml", "runs", ""),
        ("actions/audit.yaml", "runs", ""),
        ("actions/call_supplier.yaml", "needs", ""),
        ("actions/old.yaml", "cannot", "not Python 3: line 6"),
        ("actions/admin.yaml", "cannot", "a part of StackStorm itself"),
        ("actions/outside.yaml", "cannot", "not a file of the pack"),
        ("actions/restock.yaml", "cannot", "orquesta"),
        ("actions/reboot.yaml", "cannot", "remote-shell-cmd"),
        ("actions/workflows/restock.yaml", "left out", "workflows"),
        ("rules/order_low_stock.yaml", "imported", ""),
        ("rules/audit_orders.yaml", "imported", ""),
        ("rules/webhook.yaml", "paused", "not enabled in the pack"),
        ("rules/foreign.yaml", "paused", "email_send is not part of this import"),
        ("rules/nightly.yaml", "paused", "needs the secret WAREHOUSE_API_KEY"),
        ("rules/shell.yaml", "paused", "core.local"),
        ("rules/datastore.yaml", "left out", "st2kv"),
        ("rules/twice.yaml", "left out", "occurs twice"),
        ("rules/backstop.yaml", "left out", "backstop"),
        ("sensors/scale.yaml", "left out", "run all the time"),
        ("aliases/order.yaml", "left out", "chat"),
        ("policies/order_retry.yaml", "left out", "limits"),
    ]:
        assert outcomes[file][0] == outcome, file
        assert why in outcomes[file][1], file
    assert shell.json("schedule", "show", "warehouse.nightly")["state"] == "paused"
    assert all(
        entry["try"]
        for entry in entries.values()
        if entry["outcome"] in ("cannot", "left out") and entry["kind"] != "rule"
    )
    triggers = {row["name"]: row["state"] for row in shell.json("trigger", "list")}
    assert triggers == {
        "schedule-warehouse.nightly": "enabled",
        "warehouse.audit-orders": "enabled",
        "warehouse.foreign": "paused",
        "warehouse.on_webhook": "paused",
        "warehouse.shell": "paused",
        "warehouse.order_low_stock": "enabled",
    }
    assert {row["name"] for row in shell.json("function", "list")} == {
        *("warehouse_audit", "warehouse_call_supplier", "warehouse_order"),
    }


def test_a_dry_run_reports_the_same_and_saves_nothing(shell: Shell, pack: Path):
    dry = imported(shell, "--dry-run")
    assert shell.json("function", "list") == []
    assert shell.json("trigger", "list") == []
    saved = imported(shell)
    # The warnings of a saved rule are about the functions that are stored then.
    for rule in ("rules/foreign.yaml", "rules/shell.yaml"):
        saved[rule]["notes"] = dry[rule]["notes"]
    assert dry == saved


def test_a_second_import_changes_nothing_and_leaves_what_was_resumed(shell: Shell, pack: Path):
    imported(shell)
    shell.run("trigger", "resume", "warehouse.on_webhook")
    imported(shell)
    assert {row["version"] for row in shell.json("trigger", "list")} == {1}
    assert {row["latest"] for row in shell.json("function", "list")} == {1}
    assert shell.json("trigger", "show", "warehouse.on_webhook")["state"] == "enabled"
    assert shell.json("webhook", "show", "warehouse-stock")["config"]["headers"] == ["x-note"]
    shell.run("secret", "set", "WAREHOUSE_WEBHOOK_KEY", stdin="sesame\n")
    headers = [("content-type", "application/json"), ("st2-api-key", "sesame"), ("x-note", "hi")]
    with Functory(Settings(home=shell.folder / "home")).start() as engine:
        receiver = WebhookReceiver(
            Webhooks(engine.database), engine.secrets, engine.database.clock, 1_000_000
        )
        assert (
            receiver.receive("warehouse-stock", Request("POST", headers, "", b'{"sku": "B"}')).status == 202
        )
        wait_for(lambda: engine.executions.list(function="warehouse_order", state="succeeded"))
    assert results(shell, "warehouse_order") == [
        {"order": {"supplier": "Muster GmbH", "sku": "B", "amount": 10}, "note": '"hi"', "urgent": False}
    ]


def test_names_begin_with_the_given_prefix(shell: Shell, pack: Path):
    entries = imported(shell, "--prefix", "st2")
    assert entries["actions/order.yaml"]["became"] == "st2_order"
    assert entries["rules/order_low_stock.yaml"]["became"] == "st2.order_low_stock"
    assert shell.json("trigger", "show", "st2.order_low_stock")["definition"]["function"] == "st2_order"


def test_the_pack_runs_only_in_the_sandbox_while_it_is_imported(shell: Shell, pack: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    effect = f"open({str(mark)!r}, 'w').close()"
    (pack / "actions" / "lib" / "base.py").write_text(
        f"from st2common.runners.base_action import Action\nVALUE = {effect}\n\n\n"
        f"class WarehouseAction(Action):\n    X = {effect}\n"
    )
    (pack / "actions" / "audit.py").write_text(f"{effect}\n" + (pack / "actions" / "audit.py").read_text())
    (pack / "rules" / "evil.yaml").write_text(f'name: !!python/object/apply:os.system ["touch {mark}"]\n')
    entries = imported(shell)
    assert entries["actions/order.yaml"]["became"] == "warehouse_order"
    assert "python/object" in entries["rules/evil.yaml"]["why"]
    assert not mark.exists()


class TestMistrust:
    def entry(self, pack: Path, file: str) -> dict[str, Any]:
        return next(entry.as_json() for entry in read_pack(pack).entries if entry.file == file)

    def test_links_are_not_followed(self, pack: Path, tmp_path: Path):
        (tmp_path / "secret.py").write_text("KEY = 'sesame'\n")
        (pack / "actions" / "order.py").unlink()
        (pack / "actions" / "order.py").symlink_to(tmp_path / "secret.py")
        (pack / "rules").rename(tmp_path / "rules")
        (pack / "rules").symlink_to(tmp_path / "rules")
        assert self.entry(pack, "actions/order.yaml")["outcome"] == "cannot"
        assert "symbolic link" in self.entry(pack, "actions/order.py")["why"]
        assert "symbolic link" in self.entry(pack, "rules")["why"]
        assert not any(entry.kind == "rule" for entry in read_pack(pack).entries)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a: &a [x, x]\nb: [*a, *a]\n", "aliases"),
            ("[" * 5000 + "]" * 5000, "cannot be read"),
            ("n: 1\nn: 2\n", "occurs twice"),
            ("n: .nan\n", "cannot be read"),
            ("? [a]\n: b\n", "no text"),
            ("a: b: c\n", "line 1"),
            ("n: " + "9" * 10_000, "cannot be read"),
            ("x" * 300_000, "too large"),
            ("- a\n", "no name"),
        ],
    )
    def test_a_strange_document_is_left_out_with_its_reason(self, pack: Path, text: str, said: str):
        (pack / "rules" / "strange.yaml").write_text(text)
        entry = self.entry(pack, "rules/strange.yaml")
        assert entry["outcome"] == "left out"
        assert said in entry["why"]

    def test_a_pipe_is_not_waited_for(self, pack: Path):
        (pack / "actions" / "order.py").unlink()
        os.mkfifo(pack / "actions" / "order.py")
        assert self.entry(pack, "actions/order.yaml")["outcome"] == "cannot"

    @pytest.mark.parametrize(
        ("manifest", "said"),
        [
            ("version: 1\n", "names no pack"),
            ("ref: x\npython_versions: ['2']\n", "Python 2 only"),
            ("- x\n", "not an object"),
        ],
    )
    def test_a_folder_that_is_no_pack_is_refused(self, pack: Path, manifest: str, said: str):
        (pack / "pack.yaml").write_text(manifest)
        with pytest.raises(Invalid, match=said):
            read_pack(pack)
        with pytest.raises(Invalid, match="not a folder"):
            read_pack(pack / "pack.yaml")


class TestActions:
    def function(self, pack: Path, text: str, **files: str) -> Any:
        """What a Python file becomes as the action ``order``."""
        (pack / "actions" / "order.py").write_text(text)
        for name, content in files.items():
            (pack / "actions" / "lib" / f"{name}.py").write_text(content)
        return next(entry for entry in read_pack(pack).entries if entry.file == "actions/order.yaml")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("x = 1\n", "no class"),
            ("import st2common.persistence.rule\n\n\nclass A:\n" + RUN, "StackStorm itself"),
            ("class A:\n    def run(self):\n        print 'x'\n", "is not Python 3: line 3"),
            ("import lib.old\n\n\nclass A:\n    def run(self):\n        pass\n", "actions/lib/old.py is not Python 3"),
        ],
    )  # fmt: skip
    def test_what_can_never_run_is_known_from_the_text(self, pack: Path, text: str, why: str):
        entry = self.function(pack, text, old="print 'old'\n")
        assert (entry.outcome, why in entry.why) == ("cannot", True), entry.why

    @pytest.mark.parametrize(
        "text",
        [
            "import lib.base\n\n\nclass A(lib.base.WarehouseAction):\n    def run(self):\n        pass\n",
            "from lib import base\n\n\nclass A(base.WarehouseAction):\n    def run(self):\n        pass\n",
            "from lib.base import *\n\n__all__ = ['A']\n\n\nclass A(WarehouseAction):\n" + RUN,
            "from .lib.base import WarehouseAction\n\n\nclass A(WarehouseAction):\n    def run(self):\n        pass\n",
            "from lib.base import WarehouseAction\n\n\nclass Action(WarehouseAction):\n" + RUN,
            "X = 0\n\n\nclass A:\n    def run(self):\n        global X\n        X = 1\n",
            "from lib.a import Circle\n\n\nclass B(Circle):\n    def run(self):\n        pass\n",
            "try:\n    import st2client\nexcept ImportError:\n    pass\n\n\nclass A:\n" + RUN,
        ],
    )  # fmt: skip
    def test_modules_come_along_as_they_are(self, pack: Path, text: str):
        entry = self.function(
            pack,
            text,
            base="from st2common.runners.base_action import Action\n\n__all__ = ['WarehouseAction']\n\n\n"
            "class WarehouseAction(Action):\n    pass\n",
            a="import lib.b\n\n\nclass Circle:\n    pass\n",
            b="import lib.a\n",
        )
        assert entry.outcome == "runs", entry.why
        assert entry.function["modules"]["stackstorm_action"] == text

    def test_parameters_become_a_schema_and_a_signature(self, pack: Path):
        entry = self.function(pack, "class A:\n    def run(self, **more):\n        return more\n")
        assert "def warehouse_order(sku, amount=10, note=None):" in entry.function["text"]
        schema = entry.function["input_parameters"]
        assert schema["required"] == ["sku"]
        assert schema["properties"]["sku"] == {"type": "string"}
        assert schema["properties"]["amount"] == {"type": ["integer", "null"], "default": 10}
        assert "'urgent': False" in entry.function["text"]
        assert entry.function["limits"] == {"timeout": 20}
