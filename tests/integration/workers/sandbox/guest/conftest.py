"""Packages of functions for the tests of the child's side."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def typed_packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Make an environment that holds pydantic, attrs, msgspec and what they need, readable by every user."""
    folder = tmp_path_factory.mktemp("environment") / "site-packages"
    folder.mkdir()
    for name in (
        "pydantic",
        "pydantic_core",
        "annotated_types",
        "typing_inspection",
        "attr",
        "attrs",
        "msgspec",
    ):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    spec = find_spec("typing_extensions")
    assert spec is not None and spec.origin is not None
    shutil.copy(spec.origin, folder)
    for part in (folder, *folder.parents[:2]):
        part.chmod(0o755)
    return (str(folder),)
