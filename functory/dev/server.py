"""``functory dev``: all roles and the HTTP server in one process, with a live feed of events.

It needs nothing but a folder: SQLite, the in-memory broker, one Ctrl-C to end it. Not for production.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from pathlib import Path

from functory._version import __version__
from functory.api import create_app
from functory.api.access import admission
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from functory.dev.event_feed import EventFeed
from functory.engine import serving_address, sqlite_urls
from functory.engine.access.logins import login_address
from functory.engine.database import sqlite_files
from functory.engine.errors import Invalid
from functory.engine.settings import Settings
from functory.engine.settings_file import settings_file
from functory.project import folder
from functory.project.follow import Follower
from functory.roles import process
from functory.terminal.console import count_of

# Ctrl-C ends it at once, not after the grace time of a deployment.
GRACE_SECONDS = 2.0
# Input values of the suggested command, by their JSON type.
_EXAMPLES = {
    "string": "text",
    "integer": "1",
    "number": "1.5",
    "boolean": "true",
    "array": "[]",
    "object": "{}",
}


def dev_settings(settings: Settings, port: int | None) -> Settings:
    """Return the settings for this run. Raises :class:`Invalid` for settings of a deployment."""
    if not settings.embedded:
        raise Invalid(
            "functory dev has its own broker",
            "FUNCTORY_BROKER_URL names one that processes share",
            "unset it, or start the roles: functory server, router, worker, scheduler",
        )
    return settings.model_copy(update={"port": settings.port if port is None else port})


def project_here() -> Path | None:
    """Return the folder of the nearest ``functory.toml`` if it has functions in files; None without."""
    file = settings_file()
    root = file.resolve().parent
    return root if file.is_file() and (root / folder.FUNCTIONS).is_dir() else None


def reset(settings: Settings, *, confirmed: bool) -> None:
    """Delete the data file after a confirmation. Raises :class:`Invalid` without one."""
    file = sqlite_urls.path_of(settings.database)
    if file is None:
        raise Invalid(
            "only a data file can be reset",
            "FUNCTORY_DATABASE_URL names none",
            "empty that database yourself",
        )
    if not file.exists() and sqlite_files.orphaned_log(file) is None:
        return
    if not confirmed:
        if not sys.stdin.isatty():
            raise Invalid(
                f"--reset would delete {file}", "there is no terminal to ask at", "functory dev --reset --yes"
            )
        answer = input(f"Delete {file} with all its functions and executions? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise Invalid(f"{file} was not deleted", "you did not agree", "functory dev")
    # The write-ahead log first: left alone it would belong to no database.
    for name in (f"{file}-wal", f"{file}-shm", str(file)):
        Path(name).unlink(missing_ok=True)


def run(settings: Settings, *, quiet: bool, project: Path | None = None, rerun: bool = True) -> int:
    """Run until Ctrl-C, and follow the folder of a ``project`` (:class:`functory.project.follow.Follower`).

    Returns the exit status. Raises :class:`Invalid` for a folder that is no project, and :class:`DatabaseLost` when the
    data file was deleted or replaced meanwhile.
    """
    began = time.monotonic()
    if project is not None:
        # A folder that is no project is said before anything starts.
        folder.read(project)
    ending = process.RoleShutdown().install()
    # The banner below shows the same facts.
    for name in ("functory.workers.sandbox.runner", "functory.sandbox"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("celery").setLevel(logging.WARNING)
    with contextlib.ExitStack() as stack:
        functory = stack.enter_context(Functory(settings))
        functory.database.on_lost = ending.fail
        admission.check(functory)
        owner = admission.has_owner(functory)
        server = Server(
            create_app(functory, owner=owner), settings.host, settings.port, ConnectionLimits.of(settings)
        )
        server.start()
        stack.callback(server.stop, GRACE_SECONDS)
        stack.enter_context(serving_address.announced(settings, server.url, takes_links=owner))
        stack.enter_context(process.show_state_metrics(functory.database, settings))
        own_port = stack.enter_context(process.serve_metrics(settings))
        feed = EventFeed(functory)
        functory.start()
        link = login_address(server.url, functory.logins.new_link()) if owner else None
        for line in _banner(functory, server.url, own_port or f"{server.url}/metrics", link):
            print_line(line)
        print_line(
            f"  Ready in {time.monotonic() - began:.1f} s.  {next_command_hint(functory)}   Quit: Ctrl-C\n"
        )
        if project is not None:
            follower = Follower(functory, project, print_line, rerun=rerun)
            follower.start()
            stack.callback(follower.stop)
        if not quiet:
            feed.start(print_line)
            stack.callback(feed.stop)
        process.freeze_start()
        ending.wait()
        print_line("\n  stopping")
    if ending.failure is not None:
        raise ending.failure
    return 0


def print_line(line: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _banner(functory: Functory, url: str, metrics: str, link: str | None) -> list[str]:
    settings = functory.settings
    functions, triggers = len(functory.functions.list()), functory.triggers.count()
    file = functory.database.file
    data = functory.database.name if file is None else _relative_path(file)
    tier = "OFF" if functory.runner.tier == "none" else f"tier {functory.runner.tier}"
    rows = [
        ("API", url, "health /healthz /readyz"),
        *([("Log in", link, "")] if link else []),
        ("Metrics", metrics, ""),
        ("Data", data, "functory dev --reset to start anew" if file is not None else ""),
        ("Stored", f"{count_of(functions, 'function')}, {count_of(triggers, 'trigger')}", ""),
        ("Worker", f"{count_of(settings.worker_slots, 'slot')}", f"sandbox: {tier}"),
    ]
    kind = "PostgreSQL" if file is None else "SQLite"
    lines = [
        "",
        f"  functory {__version__}   dev    NOT FOR PRODUCTION: one owner, {kind}, in-memory broker",
        "",
    ]
    lines += [f"  {label:<11} {value:<33} {note}".rstrip() for label, value, note in rows]
    if functory.runner.tier == "none":
        lines += [
            "",
            "  ISOLATION IS OFF: a function can do whatever you can. Run only functions that you trust.",
        ]
    return [*lines, ""]


def next_command_hint(functory: Functory) -> str:
    """Return a command that works: one that runs a stored function with an input that fits its schema."""
    versions = [row for row in functory.functions.list() if row["state"] == "enabled" and row["active"]]
    if not versions:
        return "Try:  functory function add FILE"
    row = min(versions, key=lambda row: len(row["input_schema"].get("required", ())))
    options = []
    for name in row["input_schema"].get("required", ()):
        schema = row["input_schema"]["properties"][name]
        # Another rule, such as a smallest number, might refuse the example.
        example = _EXAMPLES.get(schema.get("type")) if set(schema) <= {"type", "title", "items"} else None
        if example is None:
            return f"Try:  functory function show {row['name']}"
        options.append(f" -i {name}={example}")
    return f"Try:  functory function run {row['name']}{''.join(options)}"


def _relative_path(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
