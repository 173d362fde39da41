"""Index of commands: one list for the help page, the lazy imports and the completion.

It imports no library, so that ``functory --help`` answers at once.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class CommandEntry:
    """A top-level command. ``attribute`` of ``module`` is a Typer app (``app``) or one function.

    ``verb`` makes the entry an abbreviation for one verb of a noun.
    """

    name: str
    module: str
    attribute: str
    help: str
    aliases: tuple[str, ...] = ()
    verb: str | None = None

    @property
    def here_only(self) -> bool:
        """True for a command that works with the files and processes of its machine, and not over a server."""
        return self.name in _HERE_ONLY

    @property
    def is_installed(self) -> bool:
        """True when this installation has the module."""
        return importlib.util.find_spec(self.module) is not None


_CLI = "functory.cli.commands"
_HERE_ONLY = frozenset({
    "dev", "environment", "db", "server", "router", "worker", "scheduler", "watcher", "gateway", "doctor", "verify",
    "dashboard", "init",
})  # fmt: skip

SECTIONS: dict[str, tuple[CommandEntry, ...]] = {
    "Start": (
        CommandEntry(
            "demo", f"{_CLI}.demo", "demo", "show how events become executions, in a temporary folder"
        ),
        CommandEntry(
            "init", f"{_CLI}.init", "init", "make the folder of a project, whose files are functions"
        ),
        CommandEntry("dev", f"{_CLI}.dev", "dev", "run all roles in one process, and follow the folder"),
        CommandEntry(
            "run", f"{_CLI}.function.crud", "app", "run a stored function and print its result", verb="run"
        ),
    ),
    "Nouns": (
        CommandEntry("function", f"{_CLI}.function.crud", "app", "functions and their versions", ("fn",)),
        CommandEntry(
            "trigger", f"{_CLI}.trigger.crud", "app", "rules that turn events into executions", ("tr",)
        ),
        CommandEntry("event", f"{_CLI}.event", "app", "everything that happened", ("ev",)),
        CommandEntry("schedule", f"{_CLI}.schedule", "app", "events at given times"),
        CommandEntry("watch", f"{_CLI}.watch", "app", "events of files and of database tables"),
        CommandEntry("webhook", f"{_CLI}.webhook", "app", "events that other systems send over HTTP"),
        CommandEntry("source", f"{_CLI}.source", "app", "all sources of events, also queues and plug-ins"),
        CommandEntry(
            "execution",
            f"{_CLI}.execution",
            "app",
            "executions of functions: results, logs, lineage",
            ("exec", "ex"),
        ),
        CommandEntry(
            "environment", f"{_CLI}.environment", "app", "packages of functions, locked and built", ("env",)
        ),
        CommandEntry("secret", f"{_CLI}.secret", "app", "encrypted values that functions may use"),
        CommandEntry("model", f"{_CLI}.model", "app", "language models that functions may ask"),
        CommandEntry("llm", f"{_CLI}.llm", "app", "calls of language models, and what they cost"),
        CommandEntry("budget", f"{_CLI}.budget", "app", "what may be spent on language models"),
        CommandEntry("agent", f"{_CLI}.agent.crud", "app", "agents, and their runs"),
        CommandEntry("memory", f"{_CLI}.memory", "app", "what agents and functions remember"),
        CommandEntry("approval", f"{_CLI}.approval", "app", "what runs of agents ask people"),
        CommandEntry("proposal", f"{_CLI}.proposal", "app", "versions that wait to become active"),
        CommandEntry(
            "canary", f"{_CLI}.canary", "app", "versions that get a share of a function's executions"
        ),
        CommandEntry("gate", f"{_CLI}.gate", "app", "what proposals must show, and who approves them"),
        CommandEntry("grant", f"{_CLI}.grant", "app", "hosts, files and programs that functions may use"),
        CommandEntry("user", f"{_CLI}.user", "app", "users of the HTTP API and the dashboard"),
        CommandEntry("token", f"{_CLI}.token", "app", "tokens of users, for programs"),
        CommandEntry("login", f"{_CLI}.login", "app", "log in to a server; who is logged in"),
        CommandEntry(
            "logout", f"{_CLI}.logout", "logout", "forget the server of functory login and its token"
        ),
        CommandEntry("dashboard", f"{_CLI}.dashboard", "app", "the way into the dashboard of functory dev"),
        CommandEntry("state", f"{_CLI}.state", "app", "small values that functions keep between executions"),
        CommandEntry(
            "pack", f"{_CLI}.pack", "app", "packs of other systems, imported as functions and triggers"
        ),
        CommandEntry("db", f"{_CLI}.db", "app", "the database: schema, backup, restore, prune"),
    ),
    "Roles": (
        CommandEntry("server", f"{_CLI}.server", "server", "HTTP: webhooks, events, health, metrics"),
        CommandEntry("router", f"{_CLI}.router", "router", "turns events into executions"),
        CommandEntry("worker", f"{_CLI}.worker", "worker", "runs executions (a Celery worker)"),
        CommandEntry(
            "scheduler",
            f"{_CLI}.scheduler",
            "scheduler",
            "fires schedules, finds lost executions, deletes old rows",
        ),
        CommandEntry("watcher", f"{_CLI}.watcher", "watcher", "listens to files, queues and plug-ins"),
        CommandEntry("gateway", f"{_CLI}.gateway", "gateway", "sends requests to language models"),
    ),
    "Checks": (
        CommandEntry("status", f"{_CLI}.status", "status", "open work, workers, counts"),
        CommandEntry("top", f"{_CLI}.top", "top", "what runs now, and which functions are busy"),
        CommandEntry("doctor", f"{_CLI}.doctor", "doctor", "check this installation and say what to repair"),
        CommandEntry("verify", f"{_CLI}.verify", "verify", "check that nothing was lost or done twice"),
        CommandEntry("config", f"{_CLI}.config", "config", "settings in force and where they come from"),
    ),
}

PURPOSE = "An event-driven engine for Python functions that live in a database."


def entries() -> list[CommandEntry]:
    """Return the installed commands in the order of the help page."""
    return [entry for section in SECTIONS.values() for entry in section if entry.is_installed]


def find(name: str) -> CommandEntry | None:
    """Return a command by name or alias."""
    return next((entry for entry in entries() if name == entry.name or name in entry.aliases), None)


def help_text() -> str:
    """Return the page of ``functory --help``."""
    lines = ["Usage: functory COMMAND …", "", PURPOSE]
    for title, section in SECTIONS.items():
        present = [entry for entry in section if entry.is_installed]
        if present:
            lines += ["", f"{title}:"]
            lines += [f"  {', '.join((entry.name, *entry.aliases)):<22}{entry.help}" for entry in present]
    lines += [
        "",
        "Options:",
        f"  {'--help':<22}this page; functory COMMAND --help shows more",
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
