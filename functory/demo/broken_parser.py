"""The change that breaks ``parse_metadata``: it looks tidier, and forgets every older package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from functory.demo.functions import read_headers


def parse_metadata(path: str) -> dict[str, Any]:
    """Name, version and licence of a package."""
    fields = read_headers(Path(path).read_text(encoding="utf-8", errors="replace"))
    return {
        "package": fields["name"][0],
        "version": fields["version"][0],
        "licence": fields["license-expression"][0],
        "said_in": "license-expression",
    }
