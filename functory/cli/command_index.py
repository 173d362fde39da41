"""What commands there are: the one list behind the help page, the lazy imports and the completion.

It imports no library, so that ``functory --help`` answers at once.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A command of the top level. ``attribute`` of ``module`` is a Typer app (``app``) or one function.

    ``verb`` is set for an abbreviation of a noun's verb; such an entry is that verb.
    """

    name: str
    module: str
    attribute: str
    help: str
    aliases: tuple[str, ...] = ()
    verb: str | None = None

    @property
    def exists(self) -> bool:
        """Whether this installation has the module."""
        return importlib.util.find_spec(self.module) is not None


_CLI = "functory.cli.commands"

SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Start": (
        Entry("demo", f"{_CLI}.demo", "demo", "watch an event travel, in a temporary folder"),
        Entry("dev", f"{_CLI}.roles", "dev", "run all roles in one process, for development"),
        Entry("run", f"{_CLI}.function", "app", "run a stored function and print its result", verb="run"),
    ),
    "Nouns": (
        Entry("function", f"{_CLI}.function", "app", "functions and their versions", ("fn",)),
        Entry("trigger", f"{_CLI}.trigger.crud", "app", "rules that turn events into executions", ("tr",)),
        Entry("event", f"{_CLI}.event", "app", "what happened", ("ev",)),
        Entry("schedule", f"{_CLI}.schedule", "app", "events at times"),
        Entry("watch", f"{_CLI}.watch", "app", "events of files and of database tables"),
        Entry("webhook", f"{_CLI}.webhook", "app", "events that others send over HTTP"),
        Entry("source", f"{_CLI}.source", "app", "all sources of events, queues and plug-ins among them"),
        Entry(
            "execution",
            f"{_CLI}.execution",
            "app",
            "runs of functions, their results and lineage",
            ("exec", "ex"),
        ),
        Entry(
            "environment", f"{_CLI}.environment", "app", "packages of functions, pinned and built", ("env",)
        ),
        Entry("secret", f"{_CLI}.secret", "app", "sealed values that functions may use"),
        Entry("grant", f"{_CLI}.grant", "app", "hosts, files and programs that functions may use"),
        Entry("state", f"{_CLI}.state", "app", "small values that functions keep between runs"),
        Entry("pack", f"{_CLI}.pack", "app", "packs of other systems, imported as functions and triggers"),
        Entry("db", f"{_CLI}.db", "app", "the database: schema, backup, restore, prune"),
    ),
    "Roles": (
        Entry("server", f"{_CLI}.roles", "server", "HTTP API"),
        Entry("router", f"{_CLI}.roles", "router", "events to executions"),
        Entry("worker", f"{_CLI}.roles", "worker", "executions to results (a Celery worker)"),
        Entry("scheduler", f"{_CLI}.roles", "scheduler", "schedules; sends what is due, ends what is lost"),
        Entry("watcher", f"{_CLI}.roles", "watcher", "listens to files, queues and plug-ins"),
    ),
    "Look": (
        Entry("status", f"{_CLI}.status", "status", "open work, workers, counts"),
        Entry("doctor", f"{_CLI}.doctor", "doctor", "check this installation and say what to mend"),
        Entry("verify", f"{_CLI}.verify", "verify", "check that nothing was lost and nothing doubled"),
        Entry("config", f"{_CLI}.config", "config", "settings in force and where they come from"),
    ),
}

PURPOSE = "An event-driven engine for Python functions that live in a database."


def entries() -> list[Entry]:
    """The commands that this installation has, in the order of the help page."""
    return [entry for section in SECTIONS.values() for entry in section if entry.exists]


def find(name: str) -> Entry | None:
    """A command by its name or alias."""
    return next((entry for entry in entries() if name == entry.name or name in entry.aliases), None)


def help_text() -> str:
    """The page of ``functory --help``."""
    lines = ["Usage: functory COMMAND …", "", PURPOSE]
    for title, section in SECTIONS.items():
        present = [entry for entry in section if entry.exists]
        if present:
            lines += ["", f"{title}:"]
            lines += [f"  {', '.join((entry.name, *entry.aliases)):<22}{entry.help}" for entry in present]
    lines += [
        "",
        "Options:",
        f"  {'--help':<22}this page; functory COMMAND --help tells more",
        f"  {'--version':<22}print the version",
        f"  {'--install-completion':<22}complete commands and options in your shell",
        f"  {'--show-completion':<22}print the completion script",
        "",
        "First steps:",
        "  functory function add hello.py",
        "  functory run hello --input name=Ada",
        "  functory execution list",
    ]
    return "\n".join(lines) + "\n"
