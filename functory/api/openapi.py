"""``python -m functory.api.openapi``: prints the description of the HTTP API with all its routes, as sorted JSON.

``dashboard/openapi.json`` is this text. The build of the dashboard makes its types from it, so that a renamed field
fails the dashboard's type check.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from functory.api.application import create_app
from functory.client.functory import Functory
from functory.engine.settings import Settings


def describe() -> dict[str, Any]:
    """The OpenAPI document of the application with every route, without the version, which each release changes."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder))
        with Functory(settings) as functory:
            document = create_app(functory).openapi()
    document["info"].pop("version", None)
    return document


def text() -> str:
    """The document as it is stored."""
    return json.dumps(describe(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
