"""``functory demo``: the licence watch in a temporary folder, shown by commands that a user types as well.

The commands run in this process, on the engine of the demo. The demo checks its results: when an event is lost, the
bad version stays active or the guard does not stop the loop, it reports the fault and ends with 1.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from functory.cli import session
from functory.cli.command_group import Port
from functory.cli.commands.server import import_http_server
from functory.terminal import console
from functory.terminal.console import CommandOutput
from functory.terminal.progress import progress

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.demo.licence_watch import LicenceWatch

# The data of the engine, which no function may be granted: beside the folders that functions use.
HOME = ".functory"
LOG = "demo.log"
# Open requests end, at most so long, when the dashboard is closed with Ctrl-C.
GRACE_SECONDS = 2.0


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder, to explore it with the other commands.")
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Then serve the dashboard on what the demo has made, until Ctrl-C.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Let a Prometheus collect the metrics, then serve both until Ctrl-C."),
    ] = False,
    port: Port = None,
) -> None:
    """Show events travel: files in a folder, a schedule, functions, a failure, a stopped loop, the lineage."""
    from functory import __version__
    from functory.client.functory import Functory
    from functory.demo import prometheus
    from functory.demo.licence_watch import LicenceWatch
    from functory.engine.errors import FunctoryError
    from functory.engine.settings import load_settings
    from functory.engine.telemetry import log_config

    # What is missing is said now, and not when the demo has run.
    if open_ or watch:
        import_http_server()
    program = prometheus.find_program() if watch else None
    began = time.monotonic()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Results and notes stay in their order when both go into one file.
        sys.stdout.reconfigure(line_buffering=True)
    out = CommandOutput()
    folder = Path(tempfile.mkdtemp(prefix="functory-demo-")).absolute()
    place = str(folder) if keep else "a temporary folder, deleted at the end"
    out.styled((f"functory {__version__}   demo: the licence watch", "bold"), (f"   in {place}", "dim"))
    out.styled(("Lines that begin with $ are commands. With --keep you can type them afterwards.", "dim"))
    try:
        # Open until the process ends, because its threads may log until then.
        log_config.configure(stream=(folder / LOG).open("a"))
        # The settings of this shell do not count: the demo has a database, a broker and the usual guards of its own.
        settings = load_settings(
            home=folder / HOME,
            database_url=None,
            broker_url="memory://",
            max_depth=16,
            root_budget=1000,
            author_grants=None,
            # The link of the dashboard logs the owner in: only this machine may reach it.
            host="127.0.0.1",
            public_url=None,
            api="on",
            metrics_host="127.0.0.1",
            metrics_port=0,
        )
        with contextlib.ExitStack() as stack:
            engine = stack.enter_context(Functory(settings, author="demo"))
            stack.enter_context(session.sharing(engine))
            watcher = stack.enter_context(_watched(engine, program, folder)) if program else None
            licences = LicenceWatch(engine, folder)
            try:
                _show_triggers(out, licences)
                _show_files(out, licences)
                root = _show_rollback(out, licences)
                _show_report(out, licences)
                faults = licences.faults(root)
            except FunctoryError as error:
                root, faults = "", [str(error)]
            if faults:
                raise FunctoryError(
                    "the demo did not do what it should",
                    "\n".join([*faults, *(f"log: {line}" for line in _last_log_lines(folder))]),
                    f"look into {folder}" if keep else "functory demo --keep",
                )
            out.title("5. The totals")
            _run(out, "status")
            seconds = time.monotonic() - began
            out.styled(("", ""))
            out.styled((f"All of this was checked against the database.   {seconds:.1f} s", "green"))
            if watcher is not None:
                _show_graphs(out, watcher)
            if open_ or watch:
                _serve_dashboard(out, engine, settings.port if port is None else port)
        if keep:
            _suggest_commands(out, folder, root, next(iter(licences.files)))
        elif not open_ and not watch:
            _say(out, "To look at all of it in the dashboard: functory demo --open (make demo ARGS=--open).")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _show_triggers(out: CommandOutput, watch: LicenceWatch) -> None:
    """Save everything, show what starts what, and start the roles."""
    out.title("1. Store functions, triggers and sources")
    watch.save()
    _run(out, "trigger", "graph")
    _say(out, "The cycle was accepted with a bound. Part 3 shows what stops it.")
    _run(out, "source", "list")
    watch.engine.start()
    if watch.engine.runner.tier == "none":
        console.warn("the sandbox is off: functions may do whatever this user may")


def _show_files(out: CommandOutput, watch: LicenceWatch) -> None:
    """Put all files into the folder. A few are followed one by one."""
    examples = watch.examples()
    rest = [name for name in watch.files if name not in examples]
    out.title(
        f"2. Put files into a folder, and watch the events travel ({len(examples)} of {len(watch.files)} packages)"
    )
    for name in examples:
        _print_command(out, f"cp {shlex.quote(name)} inbox/")
        watch.drop_file(name)
        _run(out, "execution", "tree", watch.wait_for_event(name))
    began = time.monotonic()
    with progress(len(watch.files), "files are parsed") as tell:
        for name in rest:
            watch.drop_file(name)
        watch.wait_until_parsed(tell)
    seconds = time.monotonic() - began
    _say(out, f"… and {len(rest)} more files in {seconds:.1f} s, the same way. The last events:")
    _run(out, "event", "tail", "-n", "6")


def _show_rollback(out: CommandOutput, watch: LicenceWatch) -> str:
    """Break a function, and show what follows. Returns the id of the event of the update."""
    out.title("3. Break a function, and watch it being put right")
    samples = watch.store_samples()
    root = watch.save_broken_version()
    _run(out, "function", "diff", "parse_metadata", "1", "2")
    _say(
        out,
        f"{samples} samples are stored, one for each way in which a package names its licence.",
        "Version 2 is active. A trigger has it validated with the samples:",
    )
    _run(out, "execution", "tree", root)
    _say(
        out,
        "roll_back made version 1 active again. That is an event as well: it would start the next",
        "validation, and so on in a circle. The guard has stopped it:",
    )
    for rolled_back in watch.engine.executions.list(function="roll_back", root_id=root):
        _run(out, "execution", "why", rolled_back["id"])
    return root


def _show_report(out: CommandOutput, watch: LicenceWatch) -> None:
    """Show the last ticks of the schedule, and the file that it has a function write."""
    watch.wait_for_report()
    out.title(f"4. The report: {len(watch.report())} of {len(watch.files)} packages need a look")
    _say(out, "Written by the schedule, each second anew:")
    _run(out, "schedule", "ticks", "report", "-n", "3")
    _print_command(out, "cat report/licences.md")
    for line in watch.report_file.read_text(encoding="utf-8").splitlines():
        out.styled((line, ""))


@contextlib.contextmanager
def _watched(engine: Functory, program: Path, folder: Path) -> Iterator[str]:
    """Serve the metrics of this process inside the block, and let Prometheus collect them. Yields its URL."""
    from functory import __version__
    from functory.demo import prometheus
    from functory.engine.telemetry import metrics
    from functory.engine.telemetry.registry import ROLES
    from functory.roles import process

    metrics.set_process("dev", __version__, ROLES)
    with contextlib.ExitStack() as stack:
        stack.enter_context(process.show_state_metrics(engine.database, engine.settings))
        url = stack.enter_context(process.serve_metrics(engine.settings))
        target = urlsplit(url or "").netloc
        yield stack.enter_context(prometheus.running(program, folder / "prometheus", target))


def _show_graphs(out: CommandOutput, url: str) -> None:
    """Say where to look at the metrics."""
    from functory.demo import prometheus

    _say(out, "Prometheus has collected the metrics of all this, each second. Look at:")
    for question, expression in prometheus.QUESTIONS:
        out.styled((f"  {question:<32}", ""), (prometheus.graph(url, expression), "cyan"))
    _say(
        out,
        f"Grafana shows more: add {url} as a source of the kind Prometheus, and import the files of",
        "deploy/grafana/dashboards. docs/how-to/watch-in-grafana.md describes it.",
    )


def _serve_dashboard(out: CommandOutput, engine: Functory, port: int) -> None:
    """Serve the dashboard on this engine until Ctrl-C. Raises :class:`Conflict` for a port that is taken."""
    from functory import dashboard
    from functory.engine.access.logins import login_address
    from functory.roles.process import RoleShutdown

    create_app, server_class, limits = import_http_server()
    ending = RoleShutdown().install()
    engine.database.on_lost = ending.fail
    server = server_class(
        create_app(engine, owner=True), engine.settings.host, port, limits.of(engine.settings)
    )
    server.start()
    try:
        if dashboard.is_built():
            _say(out, "The dashboard, for you alone. The link works once, within ten minutes. Quit: Ctrl-C")
        else:
            _say(
                out,
                "The dashboard is not built: make dashboard builds it (it needs Node.js 20 or newer).",
                "The API is served meanwhile. Quit: Ctrl-C",
            )
        out.styled((f"  {login_address(server.url, engine.logins.new_link())}", "cyan"))
        ending.wait()
    finally:
        server.stop(GRACE_SECONDS)
    if ending.failure is not None:
        raise ending.failure


def _say(out: CommandOutput, *lines: str) -> None:
    for line in ("", *lines):
        out.styled((line, ""))


def _print_command(out: CommandOutput, command: str) -> None:
    out.styled(("", ""))
    out.styled(("$ ", "dim"), (command, "cyan"))


def _run(out: CommandOutput, *words: str) -> None:
    """Print a command line of ``functory``, and what it prints. Raises :class:`typer.Exit` when it fails."""
    from functory.cli import application

    _print_command(out, shlex.join(("functory", *words)))
    if status := application.run(words):
        raise typer.Exit(status)


def _last_log_lines(folder: Path) -> list[str]:
    return (folder / LOG).read_text().splitlines()[-10:]


def _suggest_commands(out: CommandOutput, folder: Path, root: str, file: str) -> None:
    _say(
        out,
        "Kept. After the first of these lines the commands above work, too. The dashboard is served by",
        "functory dev. Try next:",
        "",
    )
    for command in (
        f"cd {shlex.quote(str(folder))} && export FUNCTORY_HOME=$PWD/{HOME}",
        "functory function show parse_metadata",
        "functory execution list --function review_licence",
        "functory execution list --state failed",
        f"functory event why {root}",
        "functory trigger list",
        "functory trigger debug keep-each-review",
        "functory watch files inbox",
        f"functory run parse_metadata --input path=$PWD/inbox/{shlex.quote(file)}",
    ):
        out.styled((f"  {command}", "cyan"))
