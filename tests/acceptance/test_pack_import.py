"""A pack of StackStorm comes along: its rules fire, its actions run, and the report names what stays behind."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.packs.stackstorm.pack import read_pack
from functory.packs.stackstorm.timer import check_timer, cron_line
from functory.triggers import definition
from tests.support.cli_shell import Shell

DATA = Path(__file__).parents[1] / "data"
FACTS = json.loads((DATA / "st2_operator_cases.json").read_text())
ENDED = {"trigger": {"type": "core.st2.generic.actiontrigger"}}
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


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
    assert "ncontains" in answer["reason"]


def test_criteria_are_indexed_where_a_pattern_can_say_them(shell: Shell, pack: Path):
    imported(shell)
    stored = shell.json("trigger", "show", "warehouse.order_low_stock")["definition"]
    assert stored["on"] == {"type": ["warehouse.stock_low"]}
    compiled = definition.compile_definition({"id": "", "name": "x", "version": 1, "definition": stored})
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
    assert "functory secret set WAREHOUSE_API_KEY" in " ".join(entries["actions/call_supplier.yaml"]["notes"])
    shell.run("secret", "set", "WAREHOUSE_API_KEY", stdin="sesame\n")
    assert "calling Muster GmbH with a key of 6 characters" in shell.out("run", "warehouse_call_supplier")


def test_the_report_names_everything_and_why_it_stays_behind(shell: Shell, pack: Path):
    entries = imported(shell)
    outcomes = {file: (entry["outcome"], entry["why"]) for file, entry in entries.items()}
    for file, outcome, why in [
        ("actions/order.yaml", "imported", ""),
        ("actions/audit.yaml", "imported", ""),
        ("actions/old.yaml", "left out", "not Python 3: line 6"),
        ("actions/admin.yaml", "left out", "a part of StackStorm itself"),
        ("actions/outside.yaml", "left out", "not a file of the pack"),
        ("actions/restock.yaml", "left out", "orquesta"),
        ("actions/reboot.yaml", "left out", "remote-shell-cmd"),
        ("actions/workflows/restock.yaml", "left out", "workflows"),
        ("rules/order_low_stock.yaml", "imported", ""),
        ("rules/audit_orders.yaml", "imported", ""),
        ("rules/webhook.yaml", "paused", "not enabled in the pack"),
        ("rules/foreign.yaml", "paused", "email_send is not part of this import"),
        ("rules/nightly.yaml", "left out", "by the clock"),
        ("rules/shell.yaml", "left out", "core.local"),
        ("rules/datastore.yaml", "left out", "st2kv"),
        ("rules/twice.yaml", "left out", "occurs twice"),
        ("rules/backstop.yaml", "left out", "backstop"),
        ("sensors/scale.yaml", "left out", "run all the time"),
        ("aliases/order.yaml", "left out", "chat"),
        ("policies/order_retry.yaml", "left out", "limits"),
    ]:
        assert outcomes[file][0] == outcome, file
        assert why in outcomes[file][1], file
    assert "30 3 * * mon-fri (Europe/Berlin)" in entries["rules/nightly.yaml"]["try"]
    assert all(
        entry["try"]
        for entry in entries.values()
        if entry["outcome"] == "left out" and entry["kind"] != "rule"
    )
    triggers = {row["name"]: row["state"] for row in shell.json("trigger", "list")}
    assert triggers == {
        "warehouse.audit-orders": "enabled",
        "warehouse.foreign": "paused",
        "warehouse.on_webhook": "paused",
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
    saved["rules/foreign.yaml"]["notes"] = dry["rules/foreign.yaml"]["notes"]
    assert dry == saved


def test_a_second_import_changes_nothing_and_leaves_what_was_resumed(shell: Shell, pack: Path):
    imported(shell)
    shell.run("trigger", "resume", "warehouse.on_webhook")
    imported(shell)
    assert {row["version"] for row in shell.json("trigger", "list")} == {1}
    assert {row["latest"] for row in shell.json("function", "list")} == {1}
    assert shell.json("trigger", "show", "warehouse.on_webhook")["state"] == "enabled"
    data = json.dumps({"body": {"sku": "B"}, "headers": {"X-Note": "hi"}})
    shell.run("event", "emit", "stackstorm.webhook", "--subject", "stock", "--data", data, "--wait")
    assert results(shell, "warehouse_order") == [
        {"order": {"supplier": "Muster GmbH", "sku": "B", "amount": 10}, "note": '"hi"', "urgent": False}
    ]


def test_names_begin_with_the_given_prefix(shell: Shell, pack: Path):
    entries = imported(shell, "--prefix", "st2")
    assert entries["actions/order.yaml"]["became"] == "st2_order"
    assert entries["rules/order_low_stock.yaml"]["became"] == "st2.order_low_stock"
    assert shell.json("trigger", "show", "st2.order_low_stock")["definition"]["function"] == "st2_order"


def test_nothing_of_the_pack_is_run_while_it_is_imported(shell: Shell, pack: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    effect = f"open({str(mark)!r}, 'w').close()"
    (pack / "actions" / "lib" / "base.py").write_text(
        f"from st2common.runners.base_action import Action\nVALUE = {effect}\n\n\n"
        f"class WarehouseAction(Action):\n    X = {effect}\n"
    )
    (pack / "actions" / "audit.py").write_text(f"{effect}\n" + (pack / "actions" / "audit.py").read_text())
    (pack / "rules" / "evil.yaml").write_text(f'name: !!python/object/apply:os.system ["touch {mark}"]\n')
    entries = imported(shell)
    assert entries["actions/order.yaml"]["outcome"] == "imported"
    assert entries["actions/audit.yaml"]["outcome"] == "imported"
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
        assert self.entry(pack, "actions/order.yaml")["outcome"] == "left out"
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
        assert self.entry(pack, "actions/order.yaml")["outcome"] == "left out"

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
            ("class A:\n    pass\n\n\nclass B:\n    pass\n", "several classes"),
            ("x = 1\n", "no class"),
            ("import lib.base\n\n\nclass A:\n    pass\n", "as an object"),
            ("from lib import base\n\n\nclass A:\n    pass\n", "as objects"),
            ("from lib.base import *\n\n\nclass A:\n    pass\n", "imports *"),
            ("from os.path import *\n\n\nclass A:\n    pass\n", "imports *"),
            ("from lib.base import Nothing\n\n\nclass A:\n    pass\n", "does not define"),
            ("from . import base\n\n\nclass A:\n    pass\n", "relative"),
            (
                "from lib.base import WarehouseAction\n\n\nclass Action(WarehouseAction):\n    pass\n",
                "Action is defined",
            ),
            ("class sku:\n    pass\n", "parameter sku"),
            ("class warehouse_order:\n    pass\n", "warehouse_order"),
            ("X = 0\n\n\nclass A:\n    def run(self):\n        global X\n        X = 1\n", "globals"),
            ("from lib.a import A\n\n\nclass B(A):\n    pass\n", "circle"),
        ],
    )
    def test_what_cannot_be_read_from_the_text_is_left_out(self, pack: Path, text: str, why: str):
        entry = self.function(pack, text, a="from lib.b import B\nA = B\n", b="from lib.a import A\nB = A\n")
        assert entry.outcome == "left out"
        assert why in entry.why

    def test_the_same_import_in_two_files_is_no_clash(self, pack: Path):
        text = "import os\nfrom lib.a import A\n\n\nclass B(A):\n    def run(self, **more):\n        return os.sep\n"
        assert self.function(pack, text, a="import os, sys\n\n\nclass A:\n    pass\n").outcome == "imported"

    def test_parameters_become_a_schema_and_a_signature(self, pack: Path):
        entry = self.function(pack, "class A:\n    def run(self, **more):\n        return more\n")
        assert "def warehouse_order(sku, amount=10, note=None):" in entry.function["text"]
        schema = entry.function["input_parameters"]
        assert schema["required"] == ["sku"]
        assert schema["properties"]["sku"] == {"type": "string"}
        assert schema["properties"]["amount"] == {"type": ["integer", "null"], "default": 10}
        assert "'urgent': False" in entry.function["text"]
        assert entry.function["limits"] == {"timeout": 20}


class TestRules:
    def trigger(self, pack: Path, rule: dict[str, Any]) -> Any:
        rule = {
            "name": "r",
            "enabled": True,
            "action": {"ref": "warehouse.order", "parameters": {"sku": "x"}},
        } | rule
        (pack / "rules" / "r.yaml").write_text(json.dumps(rule))
        return next(entry for entry in read_pack(pack).entries if entry.file == "rules/r.yaml")

    @pytest.mark.parametrize(
        ("criteria", "on"),
        [
            ({}, None),
            (
                {"trigger.status": {"type": "in", "pattern": ["failed", "timeout"]}},
                ["execution.failed", "execution.timed_out"],
            ),
            ({"trigger.status": {"type": "eq", "pattern": "canceled"}}, ["execution.cancelled"]),
        ],
    )
    def test_an_actions_end_is_an_executions_end(
        self, pack: Path, criteria: dict[str, Any], on: list[str] | None
    ):
        entry = self.trigger(pack, ENDED | {"criteria": criteria})
        assert entry.outcome == "imported"
        ends = ["succeeded", "failed", "timed_out", "cancelled", "dead"]
        assert entry.trigger["on"] == {"type": on or [f"execution.{end}" for end in ends]}
        assert "criteria" not in entry.trigger

    @pytest.mark.parametrize(
        ("rule", "why"),
        [
            (ENDED | {"criteria": {"trigger.runner_ref": {"type": "exists"}}}, "runner_ref"),
            (ENDED | {"criteria": {"trigger.status": {"type": "regex", "pattern": "f"}}}, "more than"),
            ({"trigger": {"type": "core.st2.key_value_pair.create"}}, "no events"),
            ({"trigger": {"type": "file.changed"}}, "reserved"),
            ({"trigger": {"type": "warehouse.stock_low"}, "action": {"ref": "warehouse.old"}}, "was not imported"),
            ({"trigger": {}}, "no trigger"),
            ({"trigger": {"type": "core.st2.CronTimer", "parameters": {"minutex": 0}}}, "no parameter minutex"),
        ],
    )  # fmt: skip
    def test_what_has_no_counterpart_is_left_out(self, pack: Path, rule: dict[str, Any], why: str):
        entry = self.trigger(pack, rule)
        assert (entry.outcome, why in entry.why) == ("left out", True), entry.why

    def test_an_undeclared_trigger_type_is_imported_but_rests(self, pack: Path):
        entry = self.trigger(pack, {"trigger": {"type": "irc.pubmsg"}})
        assert (entry.outcome, entry.trigger["on"]) == ("paused", {"type": ["irc.pubmsg"]})

    @pytest.mark.parametrize(
        ("written", "becomes"),
        [
            ("{{trigger}}", "{{ event.data | string }}"),
            ("{{ trigger.body.x }}", "{{ event.data.body.x | string }}"),
            ("{{ trigger.headers['X-Y'][0] }}!", '{{ event.data.headers["X-Y"][0] }}!'),
            ("{{ trigger.x | default('a') }}", '{{ event.data.x | default("a") }}'),
            ("{{ trigger.x | to_complex }}", "{{ event.data.x | string }}"),
            ("a {{ trigger.x | use_none }} b {{trigger.y}}", "a {{ event.data.x }} b {{ event.data.y }}"),
            ("plain", "plain"),
        ],
    )
    def test_parameters_become_templates(self, pack: Path, written: str, becomes: str):
        action = {"ref": "warehouse.order", "parameters": {"sku": written}}
        entry = self.trigger(pack, {"trigger": {"type": "warehouse.stock_low"}, "action": action})
        assert entry.trigger["input"] == {"sku": becomes}

    @pytest.mark.parametrize(
        "written",
        [
            "{{ st2kv.system.x }}",
            "{{ trigger.x + 1 }}",
            "{{ trigger.x | regex_replace('a', 'b') }}",
            "{% if 1 %}{% endif %}",
            "{{ trigger.x",
        ],
    )
    def test_other_templates_leave_the_rule_out(self, pack: Path, written: str):
        action = {"ref": "warehouse.order", "parameters": {"sku": written}}
        entry = self.trigger(pack, {"trigger": {"type": "warehouse.stock_low"}, "action": action})
        assert (entry.outcome, "parameter sku" in entry.why) == ("left out", True)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in FACTS["ruleset_cases"]])
def test_the_same_rules_fire_as_in_stackstorm(pack: Path, case: dict[str, Any]):
    """But for backstop rules, which are left out; and a rule that StackStorm would never match is refused."""
    shutil.rmtree(pack / "rules")
    (pack / "rules").mkdir()
    type_ = case.get("trigger", "warehouse.stock_low")
    for rule in case["rules"]:
        kind = {"ref": rule.get("type", "standard")}
        whole = (
            {"action": {"ref": "warehouse.order", "parameters": {}}}
            | rule
            | {"type": kind, "trigger": {"type": type_}}
        )
        (pack / "rules" / f"{rule['name']}.yaml").write_text(json.dumps(whole))
    entries = {entry.name: entry for entry in read_pack(pack).entries if entry.kind == "rule"}
    enabled = {rule["name"] for rule in case["rules"] if rule["enabled"]}
    event = {"type": type_, "data": case["payload"]}
    fired = []
    for name, entry in entries.items():
        if entry.trigger is None:
            assert name == "backstop"
            continue
        fields = {field: value for field, value in entry.trigger.items() if field != "name"}
        try:
            stored = definition.parse(fields)
        except Invalid as error:
            assert "trigger.k1" in error.try_
            continue
        compiled = definition.compile_definition({"id": "", "name": name, "version": 1, "definition": stored})
        verdict = compiled.evaluate_conditions(event, NOW)
        if name in enabled and compiled.pattern.matches(event) and (verdict is None or verdict.matched):
            fired.append(name)
            if "expected_parameters" in case:
                assert compiled.make_input(event, []) == case["expected_parameters"]
    assert fired == [name for name in case["expected"] if name != "backstop"]


@pytest.mark.parametrize("case", FACTS["trigger_parameter_cases"])
def test_parameters_of_timers_are_checked_as_in_stackstorm(case: dict[str, Any]):
    assert (check_timer(case["trigger"], case["parameters"]) is None) is case["valid"]


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"hour": 1}, "0 1 * * *"),
        ({"minute": "*/5", "second": 0}, "*/5 * * * *"),
        ({"day": 1, "hour": 0, "minute": 30}, "30 0 1 * *"),
        ({"day_of_week": "0,6"}, "0 0 * * mon,sun"),
        ({"month": 2}, "0 0 1 2 *"),
        ({"second": 30}, None),
        ({"week": 3}, None),
    ],
)
def test_a_cron_timer_has_its_line(parameters: dict[str, Any], line: str | None):
    assert check_timer("core.st2.CronTimer", parameters) is None
    assert cron_line(parameters) == line
