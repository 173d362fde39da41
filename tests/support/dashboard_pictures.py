"""Takes the pictures of the dashboard for the documentation: ``python -m tests.support.dashboard_pictures``.

It runs the demo, and needs Chromium and a dashboard that is built. The pictures of the how-to are light. The one with
which README and the home of the documentation begin is taken in both themes.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from functory.api import create_app
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.services import installation
from tests.services.installation import Found
from tests.support.console_script import PROGRAM
from tests.support.dashboard import Deployment, launch

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "how-to"
# By the colour scheme of the reader.
HOME = {"light": FOLDER.parent / "dashboard-light.webp", "dark": FOLDER.parent / "dashboard-dark.webp"}
SIZE = {"width": 1120, "height": 670}
# The site stays small: a picture is refused above this size.
MAX_BYTES = 100_000


def pages(functory: Functory) -> dict[str, str]:
    """The address of each picture's page, by the name of its file."""
    rolled_back = functory.events.list(type_="function.activated", subject="parse_metadata")[0]
    failed = functory.executions.list(function="validate_parse_metadata", state="failed")[0]
    return {
        "dashboard-overview.webp": "/",
        "dashboard-tree.webp": f"/trees/{failed['id']}",
        "dashboard-event.webp": f"/events/{rolled_back['id']}",
        "dashboard-function.webp": "/functions/parse_metadata",
    }


def demo(folder: Path) -> Path:
    """Run the demo below a folder. Returns the home of its engine."""
    subprocess.run(
        [str(PROGRAM), "demo", "--keep"],
        check=True,
        capture_output=True,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    (home,) = folder.glob("*/.functory")
    return home


def take(functory: Functory, program: Path, url: str) -> None:
    """Save a picture of each page."""
    from playwright.sync_api import sync_playwright

    deployment = Deployment(functory, url)
    with sync_playwright() as playwright, launch(playwright, program) as browser:
        screen = deployment.log_in(deployment.context(browser))
        screen.page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        for name, path in pages(functory).items():
            screen.go(path).ready()
            if path.startswith("/events/"):
                # What the triggers decided is below the event's data.
                screen.page.locator("main section, main .card").last.scroll_into_view_if_needed()
            save(screen.page, FOLDER / name)
        screen.go(pages(functory)["dashboard-tree.webp"]).ready()
        for theme, file in HOME.items():
            screen.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            save(screen.page, file)


def save(page: Page, file: Path, quality: int = 100) -> None:
    """Save what is seen as WebP, if it is small enough. A ``quality`` of 100 loses nothing."""
    session = page.context.new_cdp_session(page)
    answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
    picture = base64.b64decode(answer["data"])
    print(f"{file.name}  {len(picture):,} bytes")
    if len(picture) > MAX_BYTES:
        sys.exit(f"error: {file.name} has more than {MAX_BYTES:,} bytes\n  try: a smaller window")
    file.write_bytes(picture)


def main() -> None:
    """Run the demo, serve the dashboard on it, and take the pictures."""
    found = installation.find("chromium")
    if not isinstance(found, Found):
        sys.exit(f"error: there is no Chromium: {found.why}")
    with tempfile.TemporaryDirectory() as folder, Functory(Settings(home=demo(Path(folder)))) as functory:
        server = Server(create_app(functory, owner=True), "127.0.0.1", 0, ConnectionLimits())
        server.start()
        functory.start()
        try:
            take(functory, found.programs["chromium"], server.url)
        finally:
            server.stop(5)


if __name__ == "__main__":
    main()
