"""The files in deploy/ start roles that exist, with settings that exist, and give them time to end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from functory.cli.command_index import SECTIONS
from functory.engine.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"
GRACE = Settings.model_fields["grace_seconds"].default


@pytest.fixture(scope="module")
def services() -> dict[str, dict]:
    """The services of the compose file that are roles."""
    return {name: service for name, service in composed()["services"].items() if is_role(service)}


def composed() -> dict[str, dict]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def is_role(service: dict) -> bool:
    return service["image"] == "functory" and "profiles" not in service


def settings_of_unit(name: str) -> dict[str, list[str]]:
    """The values of each setting of a unit, in their order."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd" / name).read_text(), re.M):
        found.setdefault(key, []).append(value)
    return found


def test_the_compose_file_runs_each_role_of_a_deployment(services: dict[str, dict]) -> None:
    roles = {entry.name for entry in SECTIONS["Roles"]}
    assert {service["command"][0] for service in services.values()} == roles | {"db"}
    for service in services.values():
        assert int(service["stop_grace_period"].removesuffix("s")) > GRACE
        names = {name.removeprefix("FUNCTORY_").lower() for name in service["environment"]}
        assert names <= set(Settings.model_fields)


def test_no_password_is_in_a_file() -> None:
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            for value in re.findall(
                r"^\s*-?\s*\w*(?:PASSWORD|PASS|SECRET_KEY)\"?\s*[:=]\s*([^\s#]+)", file.read_text(), re.M
            ):
                assert value.strip('",').startswith(("$", "…")), (file.name, value)


def test_packages_of_functions_are_in_a_volume_that_all_services_share(services: dict[str, dict]) -> None:
    whole = composed()
    for service in (*services.values(), whole["services"]["cli"]):
        volume, place = service["volumes"][0].split(":")
        assert volume in whole["volumes"]
        assert Path(service["environment"]["FUNCTORY_HOME"]).is_relative_to(place)
    # The image makes the folder for its user; a new volume takes that over.
    assert f"--home-dir {place}" in (DEPLOY / "Dockerfile").read_text()


def test_the_command_line_of_the_compose_file_works_on_the_same_deployment(services: dict[str, dict]) -> None:
    cli = composed()["services"]["cli"]
    assert cli["environment"] == services["worker"]["environment"]
    # It is no role: it starts only when it is asked for, ends, and sees the folder of the caller.
    assert cli["profiles"] and cli["restart"] == "no"
    assert f"${{PWD:-.}}:{cli['working_dir']}" in cli["volumes"]


@pytest.mark.parametrize("name", ["functory@.service", "functory-schema.service"])
def test_the_units_run_without_root_and_let_the_sandbox_work(name: str) -> None:
    unit = settings_of_unit(name)
    assert unit["User"] == ["functory"] and unit["NoNewPrivileges"] == ["yes"]
    home = Path(unit["Environment"][0].removeprefix("FUNCTORY_HOME="))
    assert home.is_relative_to(f"/var/lib/{unit['StateDirectory'][0]}")
    # Without user namespaces only tier C is left; a /proc that is partly covered cannot be mounted for a function.
    assert not unit.keys() & {
        "RestrictNamespaces",
        "ProtectKernelTunables",
        "ProtectProc",
        "ProtectKernelLogs",
    }


def test_the_schema_is_made_before_the_first_role_starts() -> None:
    role, schema = settings_of_unit("functory@.service"), settings_of_unit("functory-schema.service")
    assert "functory-schema.service" in role["After"][0] and "functory-schema.service" in role["Wants"][0]
    assert schema["ExecStart"] == ["/opt/functory/bin/functory db upgrade"]
    # A role that is started again must not upgrade under the others that run.
    assert (schema["Type"], schema["RemainAfterExit"]) == (["oneshot"], ["yes"])


def test_the_unit_leaves_a_role_its_grace_and_its_children() -> None:
    unit = settings_of_unit("functory@.service")
    assert unit["KillMode"] == ["mixed"]
    assert int(unit["TimeoutStopSec"][0]) > GRACE
