"""``python -m benchmarks [NAME …] [--json]``: run all benchmarks of parts, or the named ones.

``python -m benchmarks speed`` measures whole deployments, and ``python -m benchmarks dashboard`` the API and the pages;
their own options follow.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys

NAMES = (
    "statements",
    "router",
    "routing",
    "sandbox",
    "frames",
    "schedules",
    "webhooks",
    "gateway",
    "files",
    "follow",
    "buffers",
    "backlog",
    "idle",
    "partitions",
    "prune",
    "scrape",
    "verify",
)


def main() -> int:
    if sys.argv[1:2] == ["speed"]:
        return importlib.import_module("benchmarks.speed.__main__").main(sys.argv[2:])
    if sys.argv[1:2] == ["dashboard"]:
        return importlib.import_module("benchmarks.dashboard.run").main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="speed, dashboard, or of " + ", ".join(NAMES)
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a benchmark")
    parser.add_argument("--executions", type=int, help="size of the history, for verify")
    given = parser.parse_args()
    unknown = set(given.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; the benchmarks are {', '.join(NAMES)}")
    for name in given.names or NAMES:
        sized = {"executions": given.executions} if given.executions and name == "verify" else {}
        figures = importlib.import_module(f"benchmarks.{name}").run(quiet=given.json, **sized)
        if given.json:
            print(json.dumps({"benchmark": name, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
