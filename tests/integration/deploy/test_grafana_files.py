"""The files of deploy/grafana: made by the generator, valid for its library, and about metrics and pages that exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.support.grafana.__main__ import BOARDS, FOLDER

ROOT = Path(__file__).parents[3]
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"
RULES = ROOT / "deploy" / "prometheus" / "functory-alerts.yaml"


@pytest.fixture(params=BOARDS)
def name(request: pytest.FixtureRequest) -> str:
    """The file of each dashboard in turn."""
    return request.param


def dashboard(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / name).read_text())


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in dashboard(name)["panels"] if panel["type"] != "row"]


def known_metrics() -> set[str]:
    """All names of samples of the families in the reference."""
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) ", (ROOT / "docs" / "reference" / "metrics.md").read_text(), re.M
    )
    found = {"up", "ALERTS"}
    for family, kind in rows:
        found |= (
            {f"{family}{end}" for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {family}
        )
    return found


def test_the_committed_files_are_those_of_the_generator() -> None:
    stale = [name for name, board in BOARDS.items() if (FOLDER / name).read_text() != board()]
    assert stale == [], "python -m tests.support.grafana"
    assert {file.name for file in FOLDER.iterdir()} == set(BOARDS)


def test_a_dashboard_has_only_what_its_schema_knows(name: str) -> None:
    given = dashboard(name)
    for annotation in given["annotations"]["list"]:
        # Fields of Prometheus' own annotations, which the schema of all sources does not have.
        for field in ("titleFormat", "textFormat", "step", "useValueForTime"):
            annotation.pop(field, None)
    read = Dashboard.from_json(given)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == given


def test_a_dashboard_chooses_its_source_and_is_renewed_each_half_minute(name: str) -> None:
    whole = dashboard(name)
    assert whole["refresh"] == "30s"
    variables = {variable["name"]: variable["type"] for variable in whole["templating"]["list"]}
    assert variables["datasource"] == "datasource" and variables["job"] == "query"
    sources = [target["datasource"]["uid"] for panel in panels(name) for target in panel["targets"]]
    assert set(sources) == {"${datasource}"}


def test_each_panel_has_a_title_a_sentence_a_unit_and_a_place_of_its_own(name: str) -> None:
    whole = dashboard(name)["panels"]
    assert [panel["id"] for panel in whole] == list(range(1, len(whole) + 1))
    taken: Counter[tuple[int, int]] = Counter()
    for panel in whole:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        taken.update(
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        )
    assert [cell for cell, count in taken.items() if count > 1] == []
    for panel in panels(name):
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        text = json.dumps(panel["fieldConfig"] | panel["options"])
        assert '"unit"' in text or '"mappings"' in text, panel["title"]
    titles = Counter(panel["title"] for panel in panels(name) if panel["type"] != "stat")
    assert [title for title, count in titles.items() if count > 1] == []


def test_the_first_row_of_a_dashboard_has_figures_with_thresholds(name: str) -> None:
    assert dashboard(name)["panels"][0]["title"] == "Is anything wrong?"
    figures = [panel for panel in panels(name) if panel["type"] == "stat"]
    assert sum(len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1 for panel in figures) >= 5


def test_expressions_ask_for_metrics_that_exist(name: str) -> None:
    used = {
        word
        for panel in panels(name)
        for target in panel["targets"]
        for word in re.findall(r"\b(functory_\w+)\b(?=\{)", target["expr"])
    }
    assert used and used <= known_metrics(), used - known_metrics()


def test_alerts_ask_for_metrics_that_exist() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    used = {word for rule in group["rules"] for word in re.findall(r"\bfunctory_\w+\b", rule["expr"])}
    assert used and used <= known_metrics(), used - known_metrics()


def test_links_lead_to_pages_of_the_dashboard(name: str) -> None:
    text = "\n".join(file.read_text() for file in (ROOT / "dashboard" / "src" / "pages").glob("*.ts"))
    roots = set(re.findall(r"pattern: [\"`]/([a-z]*)", text)) | {"sources", "schedules"}
    links = re.findall(r"\$\{functory_url\}/([a-z]*)", json.dumps(dashboard(name)))
    assert set(links) <= roots, set(links) - roots


def test_the_provisioning_names_the_datasource_and_the_folder() -> None:
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "functory.yaml").read_text())["providers"]
    assert provider["type"] == "file" and provider["options"]["path"]
