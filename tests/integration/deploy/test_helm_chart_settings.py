"""Roles work with the environment that the Helm chart gives them, answer its probes, and are scaled by what exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import psycopg
import pytest

from functory.client.functory import Functory
from functory.engine import secret_files
from functory.engine.settings import Settings, load_settings
from tests.services.port import free_port
from tests.support.chart import Chart, container, environment
from tests.support.chart_values import BY_DATABASE, EVERYTHING, SETS
from tests.support.patience import patient
from tests.support.processes import PROGRAM, Roles

pytest_plugins = ["tests.support.world"]

ROOT = Path(__file__).parents[3]
SECRETS = "/run/secrets/functory"


@pytest.fixture(params=SETS.values(), ids=list(SETS))
def chart(request: pytest.FixtureRequest) -> Chart:
    return Chart.render(request.param)


def test_each_variable_is_a_setting_and_each_file_is_mounted(
    chart: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"database-url": "postgresql://a@db/a", "broker-url": "amqp://a@broker//"}
    for pod in chart.pods().values():
        mounted = {
            item["path"]
            for volume in pod["spec"]["volumes"]
            for source in volume.get("projected", {"sources": []})["sources"]
            for item in source["secret"]["items"]
        }
        named = set()
        for name, value in environment(pod).items():
            setting = name.removeprefix("FUNCTORY_").lower()
            if value.startswith(SECRETS):
                named.add(value.removeprefix(f"{SECRETS}/"))
                assert setting in Settings.model_fields or setting.removesuffix("_file") in secret_files.NAMES
                file = tmp_path / value.removeprefix(f"{SECRETS}/")
                file.write_text(given.get(file.name, "postgresql://a@db:5432/a"))
                monkeypatch.setenv(name, str(file))
            else:
                assert setting in Settings.model_fields
                monkeypatch.setenv(name, value)
        assert named == mounted
        settings = load_settings()
        assert settings.database.startswith("postgresql") and not settings.embedded
        for name in environment(pod):
            monkeypatch.delenv(name)


def test_settings_arrive_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(Chart.render(EVERYTHING).pods()["functory-server"]).items():
        if not value.startswith(SECRETS):
            monkeypatch.setenv(name, value)
    settings = load_settings(database_url=f"sqlite:///{tmp_path}/a.db")
    assert (settings.log_json, settings.max_event_bytes, settings.lease_seconds) == (True, 16777216, 60)
    assert settings.private_networks == ["10.0.0.0/8"] or list(map(str, settings.private_networks)) == [
        "10.0.0.0/8"
    ]
    assert settings.trusted_hosts == ["functory", "functory.shop", "functory.shop.svc", "events.internal"]
    assert settings.public_url == "https://events.example.com"


def test_a_role_works_with_its_environment_and_answers_its_probes(
    tmp_path: Path, migrated_file: Path
) -> None:
    file = shutil.copy(migrated_file, tmp_path / "functory.db")
    port, metrics_port = free_port(), free_port()
    values = {
        "broker": {"enabled": False},
        "server": {"port": port},
        "metricsPort": metrics_port,
        "graceSeconds": 1,
    }
    for name, deployment in Chart.render(values).all("Deployment").items():
        pod = deployment["spec"]["template"]
        ports = {one["name"]: one["containerPort"] for one in container(pod)["ports"]}
        own = environment(pod) | {"FUNCTORY_HOME": str(tmp_path / name)}
        for variable in [variable for variable, value in own.items() if value.startswith(SECRETS)]:
            del own[variable]
        own["FUNCTORY_DATABASE_URL"] = f"sqlite:///{file}"
        with Roles(tmp_path) as roles:
            role = roles.spawn([str(PROGRAM), *container(pod)["args"]], name=name, wait=True, environment=own)
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                asked = container(pod)[probe]["httpGet"]
                url = f"http://127.0.0.1:{ports[asked['port']]}{asked['path']}"
                with urllib.request.urlopen(url, timeout=patient(10)) as answer:
                    assert answer.status == 200, (name, probe)
            with urllib.request.urlopen(
                f"http://127.0.0.1:{ports['metrics']}/metrics", timeout=patient(10)
            ) as answer:
                assert b"functory_build_info" in answer.read()
            assert role.stop() == 0
        assert pod["spec"]["terminationGracePeriodSeconds"] > int(own["FUNCTORY_GRACE_SECONDS"])


def test_workers_are_scaled_by_metrics_that_exist(tmp_path: Path, promtool: Path) -> None:
    chart = Chart.render(EVERYTHING, release="functory")
    (trigger,) = chart.one("ScaledObject", "functory-worker")["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    asked = set(re.findall(r"functory_\w+(?=\{)", query))
    assert asked == {"functory_queue_depth", "functory_executions_in_state"}
    assert asked <= set(re.findall(r"^\| `(\w+)` \| gauge .* scheduler ", page, re.M))
    assert trigger["metadata"]["threshold"] == "4", "the slots of a worker"
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    # The alerts tell deployments apart by their jobs, which begin with "functory".
    (endpoint,) = chart.one("PodMonitor", "functory")["spec"]["podMetricsEndpoints"]
    job = next(one["replacement"] for one in endpoint["relabelings"] if one["targetLabel"] == "job")
    assert job == "functory-shop-functory" and query.count(f'job="{job}"') == 2
    assert endpoint["port"] in {one["name"] for one in container(chart.pods()["functory-router"])["ports"]}
    case = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "input_series": [
                    {"series": f'functory_queue_depth{{queue="executions",job="{job}"}}', "values": "5"},
                    {"series": f'functory_queue_depth{{queue="events",job="{job}"}}', "values": "900"},
                    {"series": f'functory_executions_in_state{{state="running",job="{job}"}}', "values": "7"},
                    {
                        "series": 'functory_queue_depth{queue="executions",job="functory-other"}',
                        "values": "99",
                    },
                ],
                "promql_expr_test": [
                    {"expr": query, "eval_time": "0m", "exp_samples": [{"value": 12, "labels": "{}"}]}
                ],
            }
        ],
    }
    file = tmp_path / "query.yaml"
    file.write_text(json.dumps(case))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_are_scaled_by_what_the_database_has(postgres_url: str, tmp_path: Path) -> None:
    chart = Chart.render(BY_DATABASE)
    (trigger,) = chart.one("ScaledObject", "functory-worker")["spec"]["triggers"]
    assert trigger["metadata"]["targetQueryValue"] == "3"
    login = chart.one("TriggerAuthentication", trigger["authenticationRef"]["name"])
    assert login["spec"]["secretTargetRef"] == [
        {"parameter": "connection", "name": "functory", "key": "database-url"}
    ]
    with Roles(tmp_path, database_url=postgres_url, broker_url="none://") as roles:
        roles.migrate()
        with (
            roles.client() as functory,
            psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as connection,
        ):

            def waiting() -> int:
                row = connection.execute(trigger["metadata"]["query"]).fetchone()
                assert row is not None
                return row[0]

            assert waiting() == 0
            submit(functory, 3)
            assert waiting() == 3


def submit(functory: Functory, count: int) -> None:
    functory.functions.save("def hello() -> str:\n    return 'hello'\n")
    for _ in range(count):
        functory.submit("hello")
