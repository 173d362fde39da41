"""The Helm chart: Kubernetes would accept what it renders, and its parts fit together."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chart import CHART, Chart, container, environment, faults, helm
from tests.support.chart_values import EVERYTHING, ROLES, SETS, TIER_B, TRIAL, WITHOUT_BROKER

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=SETS.values(), ids=list(SETS))
def chart(request: pytest.FixtureRequest) -> Chart:
    return Chart.render(request.param)


def fits(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return selector.items() <= labels.items()


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    else:
        yield str(value)


def test_kubernetes_and_its_extensions_know_all_that_is_rendered(chart: Chart) -> None:
    assert chart.faults() == []
    names = [(one["kind"], one["metadata"]["name"]) for one in chart.documents]
    assert len(set(names)) == len(names)


def test_a_fault_would_be_found() -> None:
    chart = Chart.render(EVERYTHING)
    for kind, spoil in (
        ("Deployment", "replica"),
        ("ScaledObject", "maxReplicas"),
        ("PodMonitor", "selectors"),
    ):
        document = next(iter(chart.all(kind).values()))
        document["spec"][spoil] = 1
        assert any(spoil in fault for fault in faults(document)), kind


@pytest.mark.parametrize("values", SETS.values(), ids=list(SETS))
def test_helm_has_no_complaint(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = helm("lint", "--strict", "--values", file, CHART)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("release", ["functory", "shop", "x" * 53])
def test_names_are_short_enough_for_each_release(release: str) -> None:
    chart = Chart.render(EVERYTHING, release)
    assert chart.faults() == []
    assert all(len(one["metadata"]["name"]) <= 63 for one in chart.documents)


def test_each_role_has_a_deployment_that_can_be_left_out() -> None:
    for off in (None, *ROLES):
        chart = Chart.render({} if off is None else {off: {"enabled": False}})
        wanted = [role for role in ROLES if role != off]
        assert chart.all("Deployment").keys() == {f"functory-{role}" for role in wanted}
        assert chart.all("PodDisruptionBudget").keys() == chart.all("Deployment").keys()
        for role in wanted:
            assert container(chart.pods()[f"functory-{role}"])["args"] == [role]
        assert bool(chart.all("Service")) == (off != "server")


def test_the_version_is_that_of_the_package() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["appVersion"] == described["version"] == package["version"]
    assert {container(pod)["image"] for pod in Chart.render().pods().values()} == {
        f"functory:{package['version']}"
    }


def test_each_value_is_described_and_an_unknown_one_is_refused() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def known(values: Any, part: Any, path: str) -> None:
        if isinstance(values, dict) and "properties" in part:
            assert part["additionalProperties"] is False and values.keys() <= part["properties"].keys(), path
            for name, value in values.items():
                known(value, part["properties"][name], f"{path}.{name}")

    known(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")
    for wrong in (
        {"worker": {"replica": 3}},
        {"sandbox": {"tier": "none"}},
        {"settings": {"database_url": "x"}},
    ):
        done = helm("template", "x", CHART, "--values", "-", given=json.dumps(wrong))
        assert done.returncode != 0 and "schema" in done.stderr


def test_selectors_find_the_pods_that_they_mean(chart: Chart) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in chart.pods().items()}
    for kind in ("Deployment", "PodDisruptionBudget"):
        for name, one in chart.all(kind).items():
            selector = one["spec"]["selector"]["matchLabels"]
            assert [pod for pod in labels if fits(selector, labels[pod])] == [name]
    for name, pod in chart.pods().items():
        for spread in pod["spec"].get("topologySpreadConstraints", []):
            assert fits(spread["labelSelector"]["matchLabels"], labels[name])
    for name, policy in chart.all("NetworkPolicy").items():
        assert [pod for pod in labels if fits(policy["spec"]["podSelector"]["matchLabels"], labels[pod])] == [
            name
        ]
    for service in chart.all("Service").values():
        (port,) = service["spec"]["ports"]
        (name,) = [pod for pod in labels if fits(service["spec"]["selector"], labels[pod])]
        assert port["targetPort"] in {one["name"] for one in container(chart.pods()[name])["ports"]}
    for monitor in chart.all("PodMonitor").values():
        assert all(fits(monitor["spec"]["selector"]["matchLabels"], one) for one in labels.values())
    for scaled in chart.all("ScaledObject").values():
        target = chart.one("Deployment", scaled["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "KEDA sets it"
    for ingress in chart.all("Ingress").values():
        (rule,) = ingress["spec"]["rules"]
        backend = rule["http"]["paths"][0]["backend"]["service"]
        assert backend["port"]["name"] in {
            one["name"] for one in chart.one("Service", backend["name"])["spec"]["ports"]
        }


def test_network_policies_cover_every_pod_and_leave_open_what_it_needs() -> None:
    chart = Chart.render(EVERYTHING)
    assert chart.all("NetworkPolicy").keys() == chart.pods().keys()
    for name, policy in chart.all("NetworkPolicy").items():
        spec = policy["spec"]
        opened = {one["port"] for rule in spec["egress"] for one in rule.get("ports", [])}
        assert {53, 5432, 5672} <= opened
        free = [rule["to"] for rule in spec["egress"] if "ports" not in rule]
        assert bool(free) == (name.removeprefix("functory-") in ("worker", "server", "watcher", "gateway"))
        assert all("169.254.0.0/16" in one["ipBlock"]["except"] for to in free for one in to)
        ports = [one["port"] for rule in spec["ingress"] for one in rule["ports"]]
        assert ports == [one["name"] for one in container(chart.pods()[name]).get("ports", [])]
    without_broker = Chart.render(WITHOUT_BROKER).one("NetworkPolicy", "functory-router")["spec"]["egress"]
    assert 5672 not in {one["port"] for rule in without_broker for one in rule.get("ports", [])}


def test_a_pod_has_no_rights_and_writes_only_into_its_volumes(chart: Chart) -> None:
    for name, pod in chart.pods().items():
        spec, one = pod["spec"], container(pod)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert f"USER {spec['securityContext']['runAsUser']}" in (ROOT / "deploy" / "Dockerfile").read_text()
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["allowPrivilegeEscalation"] is False
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert spec["automountServiceAccountToken"] is False
        # A Service of the name "functory" would set FUNCTORY_PORT=tcp://… in every pod.
        assert spec["enableServiceLinks"] is False
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        writable = {mount["mountPath"] for mount in one["volumeMounts"] if not mount.get("readOnly")}
        assert writable == {"/var/lib/functory", "/tmp"}
        assert environment(pod)["FUNCTORY_HOME"].startswith("/var/lib/functory/")
        assert volumes.keys() == {mount["name"] for mount in one["volumeMounts"]}
        assert one["resources"]["requests"] and one["resources"]["limits"], name


def test_only_the_sandbox_gets_the_profile_that_lets_it_make_namespaces() -> None:
    for values, profiles in (({}, {"RuntimeDefault"}), (TIER_B, {"RuntimeDefault", "Localhost"})):
        pods = Chart.render(values).pods()
        found = {name: pod["spec"]["securityContext"]["seccompProfile"]["type"] for name, pod in pods.items()}
        assert set(found.values()) == profiles
        strong = {name for name, profile in found.items() if profile == "Localhost"}
        assert strong in (set(), {"functory-worker", "functory-server"})
        for name in pods.keys() & {"functory-worker", "functory-server"}:
            assert environment(pods[name])["FUNCTORY_MIN_TIER"] == ("B" if strong else "C")
            assert (pods[name]["spec"].get("hostUsers") is False) == bool(strong)


def test_no_password_is_in_a_pod(chart: Chart) -> None:
    for pod in chart.pods().values():
        assert not [text for text in strings(pod) if "://" in text and text != "none://" and "@" in text]


def test_the_schema_is_upgraded_before_the_roles_and_the_secret_is_there_before() -> None:
    chart = Chart.render(TRIAL)
    job, secret = chart.one("Job", "functory-schema"), chart.one("Secret", "functory-secrets")
    assert container(job["spec"]["template"])["args"] == ["db", "upgrade"]
    hooks = [one["metadata"]["annotations"] for one in (secret, job)]
    assert {one["helm.sh/hook"] for one in hooks} == {"pre-install,pre-upgrade"}
    assert int(hooks[0]["helm.sh/hook-weight"]) < int(hooks[1]["helm.sh/hook-weight"])
    sources = job["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"]
    for source in sources:
        assert source["secret"]["name"] == "functory-secrets"
        assert {item["key"] for item in source["secret"]["items"]} <= secret["stringData"].keys()
    assert not Chart.render().all("Secret"), "values without passwords make none"


def test_alerts_and_dashboards_are_those_of_the_other_deployments() -> None:
    chart = Chart.render(EVERYTHING)
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "functory-alerts.yaml").read_text())
    assert chart.one("PrometheusRule", "functory")["spec"] == rules
    files = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
    for file in files:
        shown = chart.one("ConfigMap", f"functory-dashboard-{file.stem}")
        assert shown["data"] == {f"functory-{file.name}": file.read_text()}
        assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert len(chart.all("ConfigMap")) == len(files)


def test_a_packaged_chart_has_what_the_folder_links_to(tmp_path: Path) -> None:
    done = helm("package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("functory-*.tgz")
    values = json.dumps(EVERYTHING)
    folder, packaged = (
        helm("template", "functory", one, "--namespace", "shop", "--values", "-", given=values)
        for one in (CHART, package)
    )
    assert packaged.returncode == 0 and packaged.stdout == folder.stdout


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ["functory doctor", "functory user create NAME --role admin", "functory-server"]),
        (EVERYTHING, ["port-forward service/functory"]),
        (TRIAL, ["The Secret functory-secrets was made from values"]),
        ({"worker": {"enabled": False}}, ["There are no workers"]),
        ({"scheduler": {"enabled": False}, "server": {"enabled": False}}, ["deploy/functory-router"]),
    ],
)
def test_the_notes_say_the_first_steps(values: dict[str, Any], said: list[str]) -> None:
    done = helm(
        "install",
        "functory",
        CHART,
        "--dry-run=client",
        "-n",
        "shop",
        "--values",
        "-",
        given=json.dumps(values),
    )
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert all(one in notes for one in said), notes
