"""``functory demo``: the main job on real input, the licence watch.

Everything runs in this process, in a temporary folder that is deleted at the end. The demo checks its results: when an
event is lost, the bad version stays active or the guard does not stop the loop, it reports the fault and ends with 1.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog


def run(*, keep: bool = False, folder: Path | None = None, quiet: bool = False) -> int:
    """Run the licence watch. Returns 0, or 1 when a check fails.

    ``folder`` takes the place of a new temporary one and is never deleted; ``keep`` keeps a temporary one
    and prints what can be tried with it. ``quiet`` prints faults only.
    Raises :class:`FunctoryError` when the engine itself cannot work (an unwritable folder, say).
    """
    home = Path(tempfile.mkdtemp(prefix="functory-demo-")) if folder is None else folder
    home.mkdir(parents=True, exist_ok=True)
    kept = keep or folder is not None
    try:
        with _log_into(home / "demo.log"):
            from functory.demo import script

            return script.run_script(home, kept=kept, quiet=quiet)
    finally:
        if not kept:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _log_into(file: Path) -> Iterator[None]:
    """Send this process's log into ``file`` inside the block, so that the screen shows only the demo's output."""
    before: dict[str, Any] = structlog.get_config() if structlog.is_configured() else {}
    handler = logging.FileHandler(file)
    before_root = list(logging.root.handlers)
    logging.root.handlers[:] = [handler]
    with file.open("a") as stream:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(stream),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.configure(**before) if before else structlog.reset_defaults()
            logging.root.handlers[:] = before_root
            handler.close()
