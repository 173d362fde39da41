"""Files of a user that import Functory."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import functory as api
from functory.client.functory import Functory


@pytest.fixture
def module(tmp_path: Path, engine: Functory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a file of a user, whose ``from functory import …`` means this test's engine."""
    monkeypatch.syspath_prepend(tmp_path)
    api.use(engine)
    imported: list[str] = []

    def load(name: str, text: str) -> Any:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        imported.append(name)
        return __import__(name)

    yield load
    api.use(None)
    for name in imported:
        sys.modules.pop(name, None)
