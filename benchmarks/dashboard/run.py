"""``python -m benchmarks dashboard``: the reads, and the pages in Chromium, over a seeded history."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from benchmarks.dashboard import browser, large, live, reads, seed, streams
from benchmarks.dashboard.large import Large
from benchmarks.dashboard.readings import HEAD, line
from benchmarks.speed.servers import MeasuredPostgres
from functory.client.functory import Functory
from functory.engine.access.tokens import Tokens
from functory.engine.access.users import Users
from functory.engine.settings import Settings

PASSWORD = "a password of the benchmark"
# Milliseconds from the print of a line until a reader has it.
MOST_LATE = 500
# The first one is for all that opens streams of its own.
TOKENS = 1 + -(-streams.STEPS[-1] // streams.OF_A_LOGIN)


def main(arguments: Sequence[str]) -> int:
    """Measure what the arguments ask for, and print it. Returns 1 when something is over its budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dashboard", description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000, help="size of the history")
    parser.add_argument("--asked", type=int, default=reads.ASKED, help="requests of each route")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument(
        "--browser", action="store_true", help="measure pages in Chromium and streams as well"
    )
    parser.add_argument(
        "--tail-minutes", type=float, default=2, help="how long the browser's memory is watched"
    )
    parser.add_argument("--folder", type=Path, help="where the database is (the folder of temporary files)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        environment, tokens, grown, once = stack.enter_context(
            _seeded(options.database, options.executions, options.folder)
        )
        url, server = stack.enter_context(_server(environment))
        headers = {"authorization": f"Bearer {tokens[0]}"}
        client = stack.enter_context(httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=120))
        # Each part is printed when it ends: the later ones may take an hour.
        say = print if not options.json else _nothing
        say(f"{options.database}: {grown.get('execution', 0):,} executions, {grown.get('event', 0):,} events")
        timings = list(reads.measure(client, once, asked=options.asked))
        say(_reads(timings), flush=True)
        late = live.measure(client, environment)
        say(_late(late), flush=True)
        readings = []
        if options.browser:
            looked = browser.measure(url, client, once, "ada", PASSWORD, tail_minutes=options.tail_minutes)
            say(f"\n{HEAD}")
            for reading in itertools.chain(streams.measure(url, server, tokens[1:]), looked):
                readings.append(reading)
                say(line(reading), flush=True)
    if options.json:
        found = {"rows": grown, "reads": timings, "live": late, "pages": readings}
        print(json.dumps(found, default=vars))
    kept = [
        *(one.kept for one in timings),
        *(one.largest <= MOST_LATE for one in late),
        *(one.kept for one in readings),
    ]
    say(f"\n{kept.count(False)} of {len(kept)} are over their budgets")
    return 0 if all(kept) else 1


def _nothing(_text: str, **_more: Any) -> None:
    pass


def _reads(timings: Sequence[reads.Timing]) -> str:
    lines = [f"\n{'milliseconds':<34} {'median':>8} {'p95':>8} {'p99':>8}   largest answer"]
    for one in timings:
        lines.append(
            f"  {one.name:<32} {one.median:>8.1f} {one.p95:>8.1f} {one.p99:>8.1f}   {one.largest / 1000:,.0f} kB"
            + ("   over" if not one.kept else "")
        )
    return "\n".join(lines)


def _late(late: Sequence[live.Lateness]) -> str:
    lines = [f"\n{'milliseconds from the print of a line':<44} {'median':>8} {'p95':>8} {'largest':>8}"]
    for one in late:
        over = "   over" if one.largest > MOST_LATE else ""
        lines.append(f"  {one.name:<42} {one.median:>8.0f} {one.p95:>8.0f} {one.largest:>8.0f}{over}")
    return "\n".join(lines)


@contextlib.contextmanager
def _seeded(
    database: str, executions: int, folder: Path | None = None
) -> Iterator[tuple[dict[str, str], list[str], dict[str, int], Large]]:
    """A seeded database: the environment of a server over it, tokens, the number of new rows by table, and ids of
    what is large.
    """
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        given: dict[str, Any] = {"home": home}
        if database == "postgresql":
            # On a disk, as a user's is: ten million events do not fit into the memory of a small machine.
            server = stack.enter_context(MeasuredPostgres(folder, fsync=True))
            given["database_url"] = stack.enter_context(server.database()).replace("+psycopg", "")
        settings = Settings(**given)
        with Functory(settings.model_copy(update=large.settings())) as engine:
            load, once = seed.make(engine)
            mine = seed.count(engine, load)
            Users(engine.database).create("ada", SecretStr(PASSWORD), role="admin", author="benchmark")
            made = Tokens(engine.database)
            tokens = [
                made.create("ada", f"benchmark-{number}", author="benchmark")["token"]
                for number in range(TOKENS)
            ]
        began = time.monotonic()
        grown = seed.grow(settings.database, load, executions, mine)
        sys.stderr.write(f"  seeded in {time.monotonic() - began:.0f} s: {grown}\n")
        environment = {f"FUNCTORY_{name.upper()}": str(value) for name, value in given.items()}
        yield environment, tokens, grown, once


@contextlib.contextmanager
def _server(environment: dict[str, str]) -> Iterator[tuple[str, int]]:
    """Run ``functory server`` with all roles; yields its URL and the id of its process."""
    command = [str(Path(sys.executable).with_name("functory")), "server", "--port", "0"]
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "url=" in line:
                    yield line.split("url=")[1].split()[0], process.pid
                    return
            raise RuntimeError("the server did not start")
        finally:
            process.terminate()
