"""``functory demo``: an event on its way, in a folder that is gone afterwards."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder, to explore it with the other commands.")
    ] = False,
) -> int:
    """Show events travel: files in a folder, a schedule, functions, a failure, a stopped loop, the lineage."""
    import functory.demo

    return functory.demo.run(keep=keep) or 0
