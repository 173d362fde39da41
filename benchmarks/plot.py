"""Draws the samples of a soak as small multiples, one for each thing that must not grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

PANELS = (
    ("memory, MiB", (".mib",), ("database.mib",)),
    ("open files", (".files",), ()),
    ("threads", (".threads",), ()),
    ("connections of the database", ("database.connections",), ()),
    ("size of the database, MiB", ("database.mib",), ()),
    ("rows", ("rows.event", "rows.execution", "rows.attempt", "rows.firing"), ()),
    ("executions queued and running", ("executions.",), ()),
    ("events not on the broker yet", ("rows.outbox",), ()),
)


def draw(samples: Sequence[Mapping[str, float]], file: Path) -> None:
    """Write the plot as SVG. Raises :class:`ModuleNotFoundError` without matplotlib (``make soak`` installs it)."""
    import matplotlib  # pyright: ignore[reportMissingImports]

    matplotlib.use("svg")
    # Text as text keeps the file small; a fixed salt makes the same samples the same file.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "soak", "font.size": 8}
    from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

    minutes = [sample["seconds"] / 60 for sample in samples]
    figure, axes = pyplot.subplots(4, 2, figsize=(9, 10), sharex=True, layout="constrained")
    for axis, (title, wanted, but) in zip(axes.flat, PANELS, strict=True):
        for key in samples[0]:
            if key not in but and any(part in key for part in wanted):
                label = key.removesuffix(".mib").removesuffix(".files").removesuffix(".threads")
                axis.plot(minutes, [sample[key] for sample in samples], label=label, linewidth=1)
        axis.set_title(title, loc="left")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        if len(axis.lines) > 1:
            axis.legend(frameon=False, loc="lower right")
    for axis in axes[-1]:
        axis.set_xlabel("minutes")
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
