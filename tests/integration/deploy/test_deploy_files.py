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
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return {name: service for name, service in found.items() if service["image"] == "functory"}


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


def test_the_unit_leaves_a_role_its_grace_and_its_children() -> None:
    unit = (DEPLOY / "systemd" / "functory@.service").read_text()
    assert "KillMode=mixed" in unit
    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) > GRACE
