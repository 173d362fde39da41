"""The build of the dashboard: the same bytes each time, small enough, from pinned packages, with types of the API."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from functory.api import openapi
from tests.services.missing_servers import leave_out
from tests.support.patience import patient

DASHBOARD = Path(__file__).parents[2] / "dashboard"
KILO = 1024


def _build(folder: Path) -> dict[str, bytes]:
    node = shutil.which("node")
    if node is None or not (DASHBOARD / "node_modules").is_dir():
        leave_out("the packages of the dashboard are not installed", "make dashboard")
    environment = os.environ | {"DASHBOARD_STATIC": str(folder)}
    subprocess.run([node, "build.mjs"], cwd=DASHBOARD, env=environment, check=True, timeout=patient(100))
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return _build(tmp_path_factory.mktemp("build") / "static")


def test_two_builds_have_the_same_bytes(built: dict[str, bytes], tmp_path: Path) -> None:
    assert _build(tmp_path / "static") == built


def test_the_first_load_stays_below_its_budget(built: dict[str, bytes]) -> None:
    page = built["index.html"].decode()
    first = sum(
        len(gzip.compress(content, 9))
        for name, content in built.items()
        if f'"/{name}"' in page and name.endswith(".js")
    )
    assert first <= 110 * KILO, first


def test_the_page_loads_nothing_from_elsewhere_and_holds_no_script(built: dict[str, bytes]) -> None:
    page = built["index.html"].decode()
    assert "http" not in page
    assert "<script>" not in page
    assert "style=" not in page


def test_licences_of_what_was_bundled_are_listed(built: dict[str, bytes]) -> None:
    text = built["THIRD_PARTY.txt"].decode()
    assert "preact 1" in text
    assert "MIT" in text
    assert "esbuild" not in text


def test_the_lock_names_hashes_and_no_host() -> None:
    packages = json.loads((DASHBOARD / "package-lock.json").read_text())["packages"]
    installed = {name: one for name, one in packages.items() if name}
    assert not [name for name, one in installed.items() if "resolved" in one]
    assert not [name for name, one in installed.items() if "integrity" not in one]
    wanted = json.loads((DASHBOARD / "package.json").read_text())["dependencies"]
    assert all(
        name in ("preact", "@preact/signals", "@lezer/highlight") or name.startswith("@codemirror/")
        for name in wanted
    )


def test_the_types_of_the_dashboard_are_those_of_the_api() -> None:
    """Repair: .venv/bin/python -m functory.api.openapi > dashboard/openapi.json"""
    assert (DASHBOARD / "openapi.json").read_text() == openapi.text()
