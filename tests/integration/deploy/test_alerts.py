"""The files of deploy/prometheus: Prometheus and Alertmanager accept them, and each alert fires when it should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "functory-alerts.yaml"
CASES = FOLDER / "functory-alerts.test.yaml"
PAGE = ROOT / "docs" / "reference" / "alerts.md"
ADDRESS = "https://functory.readthedocs.io/en/latest/reference/alerts.html#"


def run(program: Path, *words: str) -> None:
    done = subprocess.run([str(program), *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_prometheus_accepts_the_rules_and_the_example(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint-fatal", RULES.name)
    run(promtool, "check", "config", "--lint-fatal", "prometheus.yaml")


def test_alertmanager_accepts_the_example(amtool: Path) -> None:
    run(amtool, "check-config", "alertmanager.yaml")


def test_each_alert_fires_and_is_quiet_as_its_cases_say(promtool: Path) -> None:
    run(promtool, "test", "rules", CASES.name)


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_quiet() -> None:
    found: set[tuple[str, bool]] = set()
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for question in case["promql_expr_test"]:
            alert = re.search(r'alertname="(\w+)", alertstate="firing"', question["expr"])
            assert alert and case["name"].startswith(alert[1]), case["name"]
            assert case["input_series"]
            found.add((alert[1], bool(question["exp_samples"])))
    assert found == {(alert, fires) for alert in alerts() for fires in (True, False)}


@pytest.mark.parametrize("alert", alerts())
def test_an_alert_says_how_severe_it_is_and_leads_to_its_section(alert: str) -> None:
    rule = alerts()[alert]
    severity = rule["labels"]["severity"]
    assert severity in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == ADDRESS + alert.lower()
    sections = re.findall(rf"^### {alert}\n\n`(\w+)`: (?:.|\n)*?```console\n\$ ", PAGE.read_text(), re.M)
    assert sections == [severity]


def test_the_page_has_a_section_for_each_alert_in_the_order_of_the_rules() -> None:
    assert re.findall(r"^### (\w+)", PAGE.read_text(), re.M) == list(alerts())
