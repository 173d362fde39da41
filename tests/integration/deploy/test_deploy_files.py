"""No file in deploy/ has a password."""

from __future__ import annotations

import re
from pathlib import Path

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_no_password_is_in_a_file() -> None:
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            for value in re.findall(
                r"^\s*-?\s*\w*(?:PASSWORD|PASS|SECRET_KEY)\"?\s*[:=]\s*([^\s#]+)", file.read_text(), re.M
            ):
                assert value.strip('",').startswith(("$", "…")), (file.name, value)
