"""The command that installs an extra of this installation: from the index, or from the checkout that is installed."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """Return the command for ``extra``, such as ``postgres``. A checkout is no package of the index."""
    try:
        text = metadata.distribution("functory").read_text("direct_url.json")
        origin = json.loads(text) if text else {}
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    if not origin.get("dir_info", {}).get("editable"):
        return f"pip install 'functory[{extra}]'"
    return f"pip install -e {shlex.quote(unquote(urlsplit(origin['url']).path) + f'[{extra}]')}"
