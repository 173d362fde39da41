"""``python -m benchmarks.speed``: see ``docs/how-to/measure-the-speed.md``."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.speed import disk, gates, report
from benchmarks.speed.measure import measure
from benchmarks.speed.options import Options, parse


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 when a gate is exceeded."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    # The object of --json is the last line of stdout; what people read goes beside it.
    out = sys.stderr if options.json else sys.stdout

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    if options.check:
        exceeded = gates.check(options, say)
        return 1 if exceeded else 0
    machine = describe(options)
    say(
        f"{machine['cores']} cores, load {machine['load']:.1f} before; a write to the disk takes "
        f"{machine['disk_fsync_ms']:.2f} ms; PostgreSQL waits for it: {'yes' if options.fsync else 'no'} "
        "(SQLite always does)"
    )
    say(
        f"{options.workers} worker(s) of {options.slots} slots, {options.routers} router(s), "
        + ("warm runners, " if options.reuse else "a new child for each execution, ")
        + ("a subscriber that reads all events" if options.subscriber else "no subscriber")
    )
    deployments: dict[str, Any] = {}
    for name in options.deployments:
        try:
            deployments[name] = measure(name, options, lambda text, name=name: say(f"  {name}: {text}"))
        except LookupError as error:
            deployments[name] = {"skipped": str(error)}
        for line in report.lines(name, deployments[name], statements=options.statements):
            say(line)
    if options.json:
        print(json.dumps(report.summary({"machine": machine, "deployments": deployments})))
    return 0


def describe(options: Options) -> dict[str, Any]:
    """The machine and what was asked."""
    asked = {
        name: str(value) if name in ("folder", "profile") and value else value
        for name, value in asdict(options).items()
    }
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "disk_fsync_ms": round(disk.fsync_ms(options.folder), 3),
        "options": asked,
    }


if __name__ == "__main__":
    # The end of the program ends its servers and roles, also when a signal asks for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
