"""Rules of StackStorm's packs: what they become, and what they fire on, decided as StackStorm decides."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.flow_control import trigger_row
from functory.packs.stackstorm.pack import read_pack
from functory.packs.stackstorm.timer import check_timer, cron_line
from functory.triggers import definition
from functory.triggers.sources.webhooks.event_mapping import TYPE as WEBHOOK

DATA = Path(__file__).parents[3] / "data"
FACTS = json.loads((DATA / "st2_operator_cases.json").read_text())
ENDED = {"trigger": {"type": "core.st2.generic.actiontrigger"}}
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "st2_pack", tmp_path / "pack"))


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
            ({"trigger": {"type": "core.st2.webhook"}}, "no url"),
            ({"trigger": {"type": "core.st2.CronTimer", "parameters": {"second": 5}}}, "a cron line cannot say"),
            ({"trigger": {"type": "file.changed"}}, "reserved"),
            ({"trigger": {}}, "no trigger"),
            ({"trigger": {"type": "core.st2.CronTimer", "parameters": {"minutex": 0}}}, "no parameter minutex"),
        ],
    )  # fmt: skip
    def test_what_has_no_counterpart_is_left_out(self, pack: Path, rule: dict[str, Any], why: str):
        entry = self.trigger(pack, rule)
        assert (entry.outcome, why in entry.why) == ("left out", True), entry.why

    @pytest.mark.parametrize(
        ("type_", "parameters", "times"),
        [
            ("IntervalTimer", {"unit": "minutes", "delta": 5}, {"every": "5m"}),
            ("IntervalTimer", {"unit": "weeks", "delta": 1, "timezone": "UTC"}, {"every": "1w"}),
            ("DateTimer", {"date": "2030-01-01 00:00:00"}, {"at": ["2030-01-01 00:00:00"]}),
            (
                "CronTimer",
                {"hour": 3, "minute": 30, "day_of_week": "0-4", "timezone": "Europe/Berlin"},
                {"cron": "30 3 * * mon-fri", "timezone": "Europe/Berlin"},
            ),
        ],
    )
    def test_a_timer_is_a_schedule(self, pack: Path, type_: str, parameters: Any, times: dict[str, Any]):
        trigger = {"type": f"core.st2.{type_}", "parameters": parameters}
        action = {"ref": "warehouse.order", "parameters": {"sku": "{{ trigger.executed_at }}"}}
        entry = self.trigger(pack, {"trigger": trigger, "action": action})
        assert (entry.outcome, entry.trigger) == ("imported", None)
        assert entry.schedule == {
            "name": "warehouse.r",
            **times,
            "function": "warehouse_order",
            "input": {"sku": "{{ event.data.fire_time | string }}"},
        }

    def test_a_webhook_shows_the_headers_that_its_rule_tests(self, pack: Path):
        criteria = {
            "trigger.headers['X-GitHub-Event']": {"type": "eq", "pattern": "push"},
            "trigger.body.ref": {"type": "exists"},
        }
        trigger = {"type": "core.st2.webhook", "parameters": {"url": "git/hub"}}
        entry = self.trigger(pack, {"trigger": trigger, "criteria": criteria})
        assert set(entry.trigger["criteria"]) == {"trigger.headers['x-github-event']", "trigger.body.ref"}
        assert entry.trigger["on"] == {"type": [WEBHOOK], "subject": ["warehouse-git-hub"]}
        assert entry.webhook == {
            "name": "warehouse-git-hub",
            "auth": {"type": "token", "header": "st2-api-key", "secret": ["WAREHOUSE_WEBHOOK_KEY"]},
            "headers": ["x-github-event"],
        }

    @pytest.mark.parametrize(
        ("ref", "function", "why"),
        [
            ("core.local", "core_local", "a part of StackStorm"),
            ("warehouse.old", "warehouse_old", "its action warehouse.old cannot be imported"),
            ("email.send", "email_send", "not part of this import"),
        ],
    )
    def test_a_rule_without_its_action_rests(self, pack: Path, ref: str, function: str, why: str):
        trigger = {"type": "core.st2.IntervalTimer", "parameters": {"unit": "hours", "delta": 1}}
        entry = self.trigger(pack, {"trigger": trigger, "action": {"ref": ref, "parameters": {}}})
        assert (entry.outcome, entry.schedule["function"]) == ("paused", function)
        assert why in entry.why
        assert "write" in entry.try_

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
        compiled = definition.compile_definition(
            trigger_row.from_mapping({"id": "", "name": name, "version": 1, "definition": stored})
        )
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
