"""Refuses to make a wheel or an sdist without the built files of the dashboard."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface):
    """Looks for the built files; an editable installation does without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise RuntimeError when they are missing."""
        if version == "editable":
            return
        if not (Path(self.root) / "functory/dashboard/static/index.html").is_file():
            raise RuntimeError("the dashboard is not built / try: make dashboard")
