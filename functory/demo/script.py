"""Order of the demo: :mod:`functory.demo.licence_watch` acts, :mod:`functory.demo.output` prints."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import functory
from functory.client import Functory
from functory.demo.licence_watch import REPORT_INTERVAL, WAIT_TIMEOUT_SECONDS, LicenceWatch, broken_line
from functory.demo.output import DemoOutput
from functory.engine.errors import FunctoryError
from functory.engine.settings import load_settings

# Where the engine keeps its own, which no function may be granted: beside the folders that functions use.
HOME = ".functory"


def run_script(folder: Path, *, kept: bool, quiet: bool) -> int:
    """Run and show the licence watch in ``folder``. Returns the exit code."""
    start = lap = time.monotonic()
    screen = DemoOutput(quiet=quiet)

    def done(what: str, detail: str) -> None:
        nonlocal lap
        now = time.monotonic()
        screen.step_done(what, detail, now - lap)
        lap = now

    screen.line()
    place = f"in {folder}" if kept else "in a temporary folder, deleted at the end; --keep to keep it"
    screen.line(f"functory {functory.__version__}   demo: the licence watch   ({place})", "bold")
    screen.line()
    # Whatever this shell is set to: the demo has a database and a broker of its own, and the usual guards.
    settings = load_settings(
        home=folder / HOME,
        database_url=None,
        broker_url="memory://",
        max_depth=16,
        root_budget=1000,
        author_grants=None,
    )
    with Functory(settings, author="demo") as engine:
        done("database", "SQLite")
        watch = LicenceWatch(engine, folder.absolute())
        saved, triggers = watch.save()
        done("saved", f"{saved} functions, {triggers} triggers")
        watch.add_sources()
        done("sources", f"a watch on the folder inbox, a schedule every {REPORT_INTERVAL}")
        engine.start()
        done("roles", f"router, scheduler, watcher, worker with {settings.worker_slots} slots")
        if engine.runner.tier == "none":
            screen.line(f"! {'sandbox':<16}OFF: functions may do whatever this user may", "yellow")
        else:
            done("sandbox", f"tier {engine.runner.tier}: functions run confined")
        try:
            root = _run_chains(watch, screen)
            written = watch.wait_for_report()
        except FunctoryError as error:
            return _fail([str(error)], folder, kept)
        faults = watch.faults(root)
        _show_report(watch, screen, root, written)
    if faults:
        return _fail(faults, folder, kept)
    screen.line(f"All of this was checked against the database.   {time.monotonic() - start:.1f} s", "green")
    screen.line()
    if kept:
        _suggest_commands(screen, folder.absolute(), root, next(iter(watch.files)))
    return 0


def _run_chains(watch: LicenceWatch, screen: DemoOutput) -> str:
    """Both chains. Returns the root of the second: the update's event."""
    examples = watch.examples()
    rest = [name for name in watch.files if name not in examples]
    screen.title(
        f"1. Put files into a folder, and watch the events travel ({len(examples)} of {len(watch.files)} packages)"
    )
    for name in examples:
        screen.line(f"$ cp {name} inbox/", "dim")
        watch.drop_file(name)
        screen.timeline(watch.engine.lineage.tree(watch.wait_for_event(name)).nodes)
        screen.line()
    start = time.monotonic()
    with screen.progress_counter("parsed", len(watch.files)) as show_progress:
        for name in rest:
            watch.drop_file(name)
        watch.wait_until_parsed(show_progress)
    screen.line(f"… and {len(rest)} more files in {time.monotonic() - start:.1f} s, the same way")
    samples = watch.store_samples()
    screen.title("2. Break a function, and watch it being put right")
    screen.line(f"parse_metadata v2 is saved and active. Its new line:  {broken_line()}", "dim")
    screen.line(
        f"{samples} samples are stored, one for each way in which a package names its licence.", "dim"
    )
    screen.line()
    root = watch.save_broken_version()
    watch.engine.settle(WAIT_TIMEOUT_SECONDS)
    screen.timeline(watch.engine.lineage.tree(root).nodes)
    screen.line()
    screen.line(
        "roll_back made version 1 active again. That is an event as well; it would start the next validation,"
    )
    screen.line(
        "and so on in a circle. The guard finds the trigger in the chain of the event already, and stops it."
    )
    return root


def _show_report(watch: LicenceWatch, screen: DemoOutput, root: str, written: Mapping[str, Any]) -> None:
    """Report, tree and totals."""
    report = watch.report()
    screen.title(f"3. The report: {len(report)} of {len(watch.files)} packages need a look")
    at = written["finished_at"].astimezone()
    screen.line(
        f"Written by the schedule, at {at:%H:%M:%S} for the last time: {watch.report_file.name}", "dim"
    )
    screen.line()
    screen.table(["package", "version", "licence", "verdict"], [list(row.values()) for row in report])
    screen.title("4. All that followed from the update, as `functory execution tree` shows it")
    screen.tree(watch.engine.lineage.tree(root).nodes)
    totals = watch.engine.lineage.totals()
    screen.line()
    screen.line(
        _totals_line(totals, len(watch.engine.schedules.ticks("report", 1000)), watch.count_stopped_loops()),
        "bold",
    )


def _totals_line(totals: Mapping[str, int], ticks: int, stopped: int) -> str:
    executions = sum(count for name, count in totals.items() if name.startswith("executions "))
    parts = [
        f"{totals['events']} events",
        f"{executions} executions",
        f"{totals['spans']} spans",
        f"{ticks} ticks of the schedule",
        f"{totals.get('executions failed', 0)} failed as they should",
        f"{stopped} loop stopped",
    ]
    return ", ".join(parts) + "."


def _fail(faults: list[str], folder: Path, kept: bool) -> int:
    lines = [f"error: the demo did not do what it should\n  {fault}" for fault in faults]
    log = (folder / "demo.log").read_text().splitlines()[-10:]
    where = f"look into {folder}" if kept else "functory demo --keep"
    sys.stderr.write("\n".join([*lines, *(f"  log: {line}" for line in log), f"try: {where}"]) + "\n")
    return 1


def _suggest_commands(screen: DemoOutput, folder: Path, root: str, file: str) -> None:
    screen.line("Kept. Try next:")
    screen.line()
    for command in (
        f"cd {shlex.quote(str(folder))} && export FUNCTORY_HOME=$PWD/{HOME}",
        "functory function show parse_metadata",
        "functory execution list --function review_licence",
        "functory execution list --state failed",
        f"functory execution tree {root}",
        f"functory event why {root}",
        "functory trigger list",
        "functory trigger debug keep-each-review",
        "functory watch files inbox",
        "functory schedule ticks report -n 5",
        f"functory run parse_metadata --input path=$PWD/inbox/{shlex.quote(file)}",
        "cat report/licences.md",
    ):
        screen.line(f"  {command}")
    screen.line()
