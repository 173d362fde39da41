"""``functory doctor``: each thing that an installation needs, looked at once, with what to do about it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from functory.cli import session
from functory.terminal import console
from functory.terminal.console import AsJson, Screen

# Below this much free space a warning; SQLite and PostgreSQL both fail badly on a full disk.
LEAST_FREE_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Finding:
    """One check's answer: ``verdict`` is ok, warn or fail."""

    check: str
    verdict: str
    found: str
    advice: str = ""


def doctor(json: AsJson = False) -> int:
    """Check this installation and say what to mend. Exit status 1 when something fails."""
    session.log_to_stderr()
    findings = examine()
    out = Screen(json=json)
    if json:
        out.value([asdict(finding) for finding in findings])
    for finding in findings if not json else ():
        out.styled(
            (f"{finding.verdict:<5}", console.STYLES[finding.verdict]),
            (f" {finding.check:<13}", "bold"),
            (finding.found, ""),
        )
        if finding.advice:
            out.styled((f"      try: {finding.advice}", "dim"))
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def examine() -> list[Finding]:
    """All findings. Without readable settings there is nothing further to look at."""
    from functory.engine.errors import FunctoryError
    from functory.engine.settings import load_settings

    findings = [_python()]
    try:
        settings = load_settings()
    except FunctoryError as error:
        return [*findings, _failed("settings", error)]
    findings.append(
        Finding(
            "settings",
            "ok",
            "embedded: all roles in one process" if settings.embedded else "client of a deployment",
        )
    )
    for name, check in (
        ("database", _database),
        ("broker", _broker),
        ("sandbox", _sandbox),
        ("secrets", _secrets),
        ("sources", _sources),
        ("webhooks", _webhooks),
        ("disk", _disk),
    ):
        findings += _guarded(name, lambda check=check: check(settings))
    return findings


def _guarded(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    from functory.engine.errors import FunctoryError

    try:
        return check()
    except FunctoryError as error:
        return [_failed(name, error)]
    except OSError as error:
        return [Finding(name, "fail", str(error))]


def _failed(name: str, error: Any) -> Finding:
    why = error.why.replace("\n", "; ")
    return Finding(name, "fail", f"{error.what}: {why}" if why else error.what, error.try_)


def _python() -> Finding:
    return Finding("python", "ok", ".".join(map(str, sys.version_info[:3])))


def _events(database: Any) -> list[Finding]:
    """What waits for an operator: events that no router could decide about, and invariants that do not hold."""
    from functory.engine.events import routing_queue
    from functory.engine.maintenance.invariants import verifier

    findings: list[Finding] = []
    with database.read() as tx:
        quarantined, standing = routing_queue.quarantined(tx), verifier.standing(tx)
    if quarantined:
        advice = (
            "functory event list --state quarantined; when the reason is mended: functory event release --all"
        )
        findings.append(
            Finding(
                "events", "warn", f"{quarantined:,} quarantined: no router could decide about them", advice
            )
        )
    broken = [f"{code} {row['count']:,} times" for code, row in standing.items() if row["count"]]
    if broken:
        findings.append(Finding("invariants", "fail", f"do not hold: {', '.join(broken)}", "functory verify"))
    return findings


def _database(settings: Any) -> list[Finding]:
    from functory.engine.database import migrations
    from functory.engine.database.connection import Database
    from functory.engine.errors import Conflict
    from functory.engine.executions import worker_registry

    if settings.database_url is None and not (settings.home / "functory.db").exists():
        return [
            Finding("database", "ok", f"none yet; the first command makes {settings.home / 'functory.db'}")
        ]
    database = Database(settings.database, pool_size=1)
    try:
        took = database.ping()
        findings = [Finding("database", "ok", f"{database.name} answers in {console.seconds(took)}")]
        found = migrations.current(database)
        try:
            migrations.check(database)
        except Conflict as error:
            return [*findings, Finding("schema", "fail", f"{found or 'none'}; {error.why}", error.try_)]
        newer = (
            ""
            if found == migrations.HEAD
            else f", newer than this version's {migrations.HEAD}; both work on it"
        )
        findings.append(Finding("schema", "ok", f"{found}{newer}"))
        alive = worker_registry.alive(database, settings.lease_seconds)
        findings += _events(database)
    finally:
        database.close()
    if alive:
        findings.append(Finding("workers", "ok", f"{len(alive)} alive"))
    elif settings.embedded:
        findings.append(
            Finding("workers", "ok", "none alive; commands that wait run their own (or: functory dev)")
        )
    else:
        findings.append(Finding("workers", "warn", "none alive: nothing will run", "functory worker"))
    return findings


def _broker(settings: Any) -> list[Finding]:
    from functory.engine.events import exchange

    if settings.embedded:
        return [Finding("broker", "ok", "in memory, in this process")]
    if settings.brokerless:
        return [Finding("broker", "ok", "none: workers claim from the database, events are not published")]
    exchange.ping(settings)
    return [Finding("broker", "ok", f"{settings.broker.split(':', 1)[0]} is reachable")]


def _sandbox(settings: Any) -> list[Finding]:
    from functory.engine.errors import FunctoryError
    from functory.workers.sandbox.checks import startup, tiers
    from functory.workers.sandbox.runner import Runner

    found = tiers.survey()
    try:
        with Runner.of(settings) as runner:
            attacks = startup.start_gate(settings, runner)
            tier = runner.tier
    except FunctoryError as error:
        findings = [_failed("sandbox", error)]
    else:
        if tier == "none":
            findings = [
                Finding(
                    "sandbox",
                    "warn",
                    "OFF, because unsafe_no_sandbox says so: functions can do whatever the worker can",
                    "run only functions that you trust"
                    if found.best == "none"
                    else f"unset FUNCTORY_UNSAFE_NO_SANDBOX: this machine offers tier {found.best}",
                )
            ]
        else:
            findings = [
                Finding(
                    "sandbox", "ok", f"tier {tier}; it stopped all {len(attacks)} attacks of its self-test"
                )
            ]
    return findings + [
        Finding(name, _weight(found.best, name), why, try_) for name, why, try_ in _lacks(found)
    ]


def _lacks(found: Any) -> list[tuple[str, str, str]]:
    """What this machine's sandbox lacks: name, why, advice. Tiers that lack the same thing are one entry."""
    together: dict[tuple[str, str], list[str]] = {}
    for gap in found.gaps:
        together.setdefault((gap.why, gap.try_), []).append(gap.name)
    lacks = [(f"no tier {'/'.join(names)}", why, try_) for (why, try_), names in together.items()]
    return lacks + [(note.name, note.why, note.try_) for note in found.notes]


def _weight(best: str, name: str) -> str:
    """The verdict on something that lacks: A is little more than B, which is much more than C."""
    return "ok" if best == "B" and name == "no tier A" else "warn"


def _secrets(settings: Any) -> list[Finding]:
    from functory.engine.access.secrets import Secrets
    from functory.engine.database.connection import Database

    file = settings.home / "secret.key"
    if settings.secret_key is None and settings.embedded and not file.exists():
        return [Finding("secrets", "ok", f"no key yet; the first secret makes {file}")]
    if settings.secret_key is None and not file.exists():
        return [Finding("secrets", "warn", "no key: no secret can be set or used", "set FUNCTORY_SECRET_KEY")]
    Secrets(Database(settings.database), settings).check_key()
    if settings.secret_key is None and file.stat().st_mode & 0o077:
        return [Finding("secrets", "warn", f"others may read {file}", f"chmod 600 {file}")]
    return [
        Finding(
            "secrets", "ok", "the key is FUNCTORY_SECRET_KEY" if settings.secret_key else f"the key is {file}"
        )
    ]


def _sources(settings: Any) -> list[Finding]:
    from functory.cli.output import source_health
    from functory.engine.database import migrations
    from functory.engine.database.connection import Database

    if settings.database_url is None and not (settings.home / "functory.db").exists():
        return []
    database = Database(settings.database, pool_size=1)
    try:
        if not migrations.works(database):
            return []
        enabled, troubles = source_health.troubles(database, embedded=settings.embedded)
    finally:
        database.close()
    if not troubles:
        return [Finding("sources", "ok", f"{enabled} enabled")] if enabled else []
    return [Finding("sources", "warn", what, advice) for what, advice in troubles]


def _webhooks(settings: Any) -> list[Finding]:
    from functory.engine.access.secrets import Secrets
    from functory.engine.database import migrations
    from functory.engine.database.connection import Database
    from functory.engine.sources.store import Sources

    if settings.database_url is None and not (settings.home / "functory.db").exists():
        return []
    database = Database(settings.database, pool_size=1)
    try:
        if not migrations.works(database):
            return []
        rows = [row for row in Sources(database).list("webhook") if row["state"] == "enabled"]
        findings = []
        for row in rows:
            auth = row["config"]["auth"]
            if auth["type"] == "none":
                findings.append(
                    Finding(
                        "webhooks",
                        "warn",
                        f"{row['name']} asks for no proof: anybody who knows its address can write events",
                        f"functory webhook add {row['name']} --auth token --secret NAME",
                    )
                )
            findings += [
                Finding(
                    "webhooks",
                    "warn",
                    f"{row['name']} needs the secret {name}, which is not set",
                    f"functory secret set {name}",
                )
                for name in Secrets(database, settings).missing(list(auth.get("secret", ())))
            ]
    finally:
        database.close()
    return findings or ([Finding("webhooks", "ok", f"{len(rows)} enabled")] if rows else [])


def _disk(settings: Any) -> list[Finding]:
    place = settings.home.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:.1f} GB free in {place}"
    if free < LEAST_FREE_BYTES:
        return [Finding("disk", "warn", text, "free some space, or set FUNCTORY_HOME to another disk")]
    return [Finding("disk", "ok", text)]
