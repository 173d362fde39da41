"""deploy/compose.yaml: as Compose renders it, it runs every role with settings, files and secrets that exist."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

from functory.cli.command_index import SECTIONS
from functory.engine import secret_files
from functory.engine.access import key_ring
from functory.engine.settings import Settings, load_settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "how-to" / "run-with-docker.md"
GRACE = Settings.model_fields["grace_seconds"].default
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

Service = dict[str, Any]


def rendered(name: str = "compose.yaml") -> dict[str, dict[str, Any]]:
    """The file with its defaults in the place of its variables."""
    text = (DEPLOY / name).read_text()
    return yaml.safe_load(VARIABLE.sub(lambda found: found[2] or "", text))


@pytest.fixture(scope="module")
def composed() -> dict[str, dict[str, Any]]:
    return rendered()


@pytest.fixture(scope="module")
def services(composed: dict[str, dict[str, Any]]) -> dict[str, Service]:
    """The services that run Functory."""
    return {name: one for name, one in composed["services"].items() if one["image"] == "functory"}


@pytest.fixture(scope="module")
def roles(services: dict[str, Service]) -> dict[str, Service]:
    """The services that run a role, and go on running."""
    return {name: one for name, one in services.items() if name not in ("schema", "cli")}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that deploy/make-secrets.sh makes."""
    folder = tmp_path_factory.mktemp("deploy") / "secrets"
    subprocess.run([DEPLOY / "make-secrets.sh", folder], check=True, capture_output=True)
    return folder


def test_it_runs_each_role_and_leaves_each_its_grace(
    roles: dict[str, Service], services: dict[str, Service]
) -> None:
    known = {entry.name for entry in SECTIONS["Roles"]}
    assert {one["command"][0] for one in roles.values()} == set(roles) == known
    assert services["schema"]["command"] == ["db", "upgrade"]
    for one in services.values():
        assert int(one["stop_grace_period"].removesuffix("s")) > GRACE


def test_the_settings_of_each_role_exist_and_are_valid(
    services: dict[str, Service], secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in services.values():
        for name in [name for name in os.environ if name.startswith("FUNCTORY_")]:
            monkeypatch.delenv(name)
        for name, value in one["environment"].items():
            setting = name.removeprefix("FUNCTORY_").lower()
            assert setting in Settings.model_fields or setting.removesuffix("_file") in secret_files.NAMES
            monkeypatch.setenv(name, value.replace("/run/secrets", str(secrets)))
        settings = load_settings()
        assert settings.database.endswith("@postgres/functory") and settings.broker.endswith("@rabbitmq//")
        assert key_ring.KeyRing(settings).load()


def test_the_passwords_of_both_sides_are_the_same(secrets: Path) -> None:
    assert (secrets / "postgres_password").read_text().strip() in (secrets / "database_url").read_text()
    (password,) = re.findall(r"^default_pass = (\w{48})$", (secrets / "rabbitmq.conf").read_text(), re.M)
    assert password in (secrets / "broker_url").read_text()


def test_secrets_that_are_there_are_kept_and_others_cannot_look_into_the_folder(secrets: Path) -> None:
    before = {file.name: file.read_bytes() for file in secrets.iterdir()}
    subprocess.run([DEPLOY / "make-secrets.sh", secrets], check=True, capture_output=True)
    assert {file.name: file.read_bytes() for file in secrets.iterdir()} == before
    assert secrets.stat().st_mode & 0o777 == 0o700
    # The users of the containers are others than the owner.
    assert {file.stat().st_mode & 0o777 for file in secrets.iterdir()} == {0o644}


def test_no_password_is_in_an_environment_or_a_command(composed: dict[str, dict[str, Any]]) -> None:
    for name, one in composed["services"].items():
        for variable, value in one.get("environment", {}).items():
            if re.search("PASS|SECRET|KEY|TOKEN|_URL", variable):
                assert value.startswith("/run/secrets/"), (name, variable)
        assert "://" not in " ".join(one.get("command", [])).replace("http://127.0.0.1", "")


def test_every_secret_is_made_and_every_name_is_declared_and_used(
    composed: dict[str, dict[str, Any]], secrets: Path
) -> None:
    used: dict[str, set[str]] = {"secrets": set(), "volumes": set(), "networks": set()}
    for one in composed["services"].values():
        for secret in one.get("secrets", []):
            used["secrets"].add(secret if isinstance(secret, str) else secret["source"])
        for volume in one.get("volumes", []):
            place = volume.split(":")[0]
            if place.startswith("./"):
                assert (DEPLOY / place).exists(), place
            elif place:
                used["volumes"].add(place)
        used["networks"] |= set(one.get("networks", ["default"]))
        for value in map(str, one.get("environment", {}).values()):
            if value.startswith("/run/secrets/"):
                assert Path(value).name in used["secrets"], value
    for kind, names in used.items():
        assert names - {"."} == set(composed[kind]), kind
    assert {Path(one["file"]).name for one in composed["secrets"].values()} == {
        file.name for file in secrets.iterdir()
    }
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text()


def test_ports_are_for_this_machine_and_no_port_is_taken_twice(composed: dict[str, dict[str, Any]]) -> None:
    ports = [port for one in composed["services"].values() for port in one.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_everything_that_runs_has_a_health_check(
    composed: dict[str, dict[str, Any]], roles: dict[str, Service]
) -> None:
    for name, one in composed["services"].items():
        if name not in ("schema", "cli"):
            assert one["healthcheck"]["test"][0] == "CMD" and one["restart"] == "always", name
    for name, one in roles.items():
        assert one["healthcheck"]["test"][1:4] == ["python", "-m", "functory.roles.probe"], name
    assert roles["server"]["healthcheck"]["test"][4].endswith(":7400/readyz")


def test_a_role_has_a_read_only_root_and_no_rights_of_root(services: dict[str, Service]) -> None:
    for one in services.values():
        assert one["read_only"] and one["init"] and one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert [place.split(":")[0] for place in one["tmpfs"]] == ["/tmp"]
        assert "user" not in one, "the image's"


def test_packages_of_functions_are_in_a_volume_that_all_services_share(services: dict[str, Service]) -> None:
    place = "/var/lib/functory"
    for one in services.values():
        assert one["volumes"][0] == f"functory:{place}"
        assert Path(one["environment"]["FUNCTORY_HOME"]).is_relative_to(place)
    # The image makes the folder for its user; a new volume takes that over.
    assert f"--home-dir {place}" in (DEPLOY / "Dockerfile").read_text()


def test_the_command_line_works_on_the_same_deployment(services: dict[str, Service]) -> None:
    cli = services["cli"]
    assert (
        cli["environment"] == services["router"]["environment"]
        and cli["secrets"] == services["router"]["secrets"]
    )
    # It is no role: it starts only when it is asked for, ends, and sees the folder of the caller.
    assert cli["profiles"] and cli["restart"] == "no"
    assert f".:{cli['working_dir']}" in cli["volumes"]


def test_prometheus_asks_each_role_and_grafana_asks_prometheus(
    composed: dict[str, dict[str, Any]], roles: dict[str, Service]
) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) == set(roles)
    assert {one["environment"]["FUNCTORY_METRICS_PORT"] for one in roles.values()} == {str(found["port"])}
    for one in roles.values():
        assert one["environment"]["FUNCTORY_METRICS_HOST"] == "0.0.0.0"
        assert "default" in one["networks"], "the network of Prometheus"
    ((target,),) = [one["static_configs"][0]["targets"] for one in config["alerting"]["alertmanagers"]]
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    for address in (target, source["datasources"][0]["url"].removeprefix("http://")):
        service, port = address.split(":")
        assert f"127.0.0.1:{port}:{port}" in composed["services"][service]["ports"]
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/functory.yaml").read_text())[
        "providers"
    ]
    assert (
        f"./grafana/dashboards:{provider['options']['path']}:ro" in composed["services"]["grafana"]["volumes"]
    )


def test_the_stronger_sandbox_changes_the_worker_alone(services: dict[str, Service]) -> None:
    changed = rendered("compose.tier-b.yaml")["services"]
    assert set(changed) == {"worker"} and set(changed["worker"]) == {"environment", "security_opt"}
    assert changed["worker"]["environment"] == {"FUNCTORY_MIN_TIER": "B"}
    profile, apparmor = changed["worker"]["security_opt"]
    assert (DEPLOY / profile.removeprefix("seccomp=")).is_file() and apparmor == "apparmor=unconfined"


def test_every_variable_and_every_file_is_on_the_page() -> None:
    page = PAGE.read_text()
    for file in ("compose.yaml", "compose.tier-b.yaml"):
        assert f"deploy/{file}" in page
        for variable, _ in VARIABLE.findall((DEPLOY / file).read_text()):
            assert variable == "PWD" or f"`{variable}`" in page, variable


@pytest.mark.parametrize("name", ["compose.yaml", "compose.tier-b.yaml"])
def test_the_files_are_valid_by_the_specification_of_compose(name: str) -> None:
    read = compose_spec.PyCompose.from_json(json.dumps(rendered(name)))
    read.validate()
    for check in (read.validate_networks, read.validate_secrets, read.validate_volumes):
        check()
    with pytest.raises(ValueError, match="security_options"):
        compose_spec.PyCompose.from_json(
            json.dumps(rendered(name)).replace("security_opt", "security_options")
        )


def test_compose_itself_reads_the_files_where_it_is_installed(secrets: Path, tmp_path: Path) -> None:
    docker = shutil.which("docker")
    has_compose = (
        docker is not None
        and not subprocess.run([docker, "compose", "version"], capture_output=True).returncode
    )
    copy = shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    shutil.copytree(secrets, copy / "secrets")
    for names in (["compose.yaml"], ["compose.yaml", "compose.tier-b.yaml"]) if has_compose else ():
        files = [part for name in names for part in ("-f", copy / name)]
        done = subprocess.run(["docker", "compose", *files, "config", "-q"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
