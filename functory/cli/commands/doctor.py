"""``functory doctor``: checks everything that an installation needs and gives advice."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from functory.cli import session
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from pathlib import Path

    from functory.engine.database.connection import Database

# Below this much free space a warning; SQLite and PostgreSQL both fail badly on a full disk.
MIN_FREE_BYTES = 1_000_000_000
# Below this nothing can be written.
NO_SPACE_BYTES = 1_000_000


@dataclass(frozen=True)
class CheckResult:
    """One check's answer: ``verdict`` is ok, warn or fail."""

    check: str
    verdict: str
    found: str
    advice: str = ""


def doctor(json: AsJson = False) -> int:
    """Check this installation and say what to repair. Exit status 1 when a check fails."""
    session.log_to_stderr()
    findings = run_checks()
    out = CommandOutput(json=json)
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


def run_checks() -> list[CheckResult]:
    """Run all checks. Without readable settings the other checks are skipped."""
    from functory.engine.errors import FunctoryError
    from functory.engine.settings import load_settings

    findings = [_python()]
    try:
        settings = load_settings()
    except FunctoryError as error:
        return [*findings, _failed("settings", error)]
    findings.append(
        CheckResult(
            "settings",
            "ok",
            "embedded: all roles in one process" if settings.embedded else "client of a deployment",
        )
    )
    for name, check in (
        ("files", _files),
        ("database", _database),
        ("broker", _broker),
        ("sandbox", _sandbox),
        ("secrets", _secrets),
        ("sources", _sources),
        ("webhooks", _webhooks),
        ("disk", _disk),
    ):
        findings += _run_check(name, lambda check=check: check(settings))
    return findings


def _run_check(name: str, check: Callable[[], list[CheckResult]]) -> list[CheckResult]:
    from functory.engine.errors import FunctoryError

    try:
        return check()
    except FunctoryError as error:
        return [_failed(name, error)]
    except OSError as error:
        return [CheckResult(name, "fail", str(error))]


def _failed(name: str, error: Any) -> CheckResult:
    why = error.why.replace("\n", "; ")
    return CheckResult(name, "fail", f"{error.what}: {why}" if why else error.what, error.try_)


def _python() -> CheckResult:
    return CheckResult("python", "ok", ".".join(map(str, sys.version_info[:3])))


def _events(database: Any) -> list[CheckResult]:
    """Find work for an operator: quarantined events and violated invariants."""
    from functory.engine.events import routing_queue
    from functory.engine.maintenance import verifier

    findings: list[CheckResult] = []
    with database.read() as tx:
        quarantined, standing = routing_queue.count_quarantined(tx), verifier.last_results(tx)
    if quarantined:
        advice = (
            "functory event list --state quarantined; when the cause is fixed: functory event release --all"
        )
        findings.append(
            CheckResult(
                "events", "warn", f"{quarantined:,} quarantined: no router could decide about them", advice
            )
        )
    broken = [f"{code} {row['count']:,} times" for code, row in standing.items() if row["count"]]
    if broken:
        findings.append(
            CheckResult("invariants", "fail", f"do not hold: {', '.join(broken)}", "functory verify")
        )
    return findings


def _clock(database: Any) -> list[CheckResult]:
    """Find a clock of the database server that was set back."""
    ahead = (database.clock.now() - database.clock.wall()).total_seconds()
    if ahead < 1:
        return []
    return [
        CheckResult(
            "clock",
            "warn",
            f"times are {console.format_duration(ahead)} ahead of the database server's clock, which was set back",
            "check that clock (NTP); they come back to it at half speed",
        )
    ]


def _guards(database: Any) -> list[CheckResult]:
    """Find what guards have dropped and was not resumed."""
    from functory.cli.output import dropped_matches
    from functory.engine.triggers.suppressions import Suppressions

    found = dropped_matches.describe(Suppressions(database).dropped(dropped_matches.DAY))
    return [CheckResult("guards", "warn", what, advice) for what, advice in found]


def _files(settings: Any) -> list[CheckResult]:
    from functory.engine import private_files

    found = private_files.find_open(settings)
    if not found:
        return [CheckResult("files", "ok", "no other user can read the data")]
    return [CheckResult("files", "warn", f"other users can read {path}", advice) for path, advice in found]


def _database(settings: Any) -> list[CheckResult]:
    from functory.engine.database import migrations, sqlite_files
    from functory.engine.database.connection import Database
    from functory.engine.errors import Conflict
    from functory.engine.executions import worker_registry

    database = Database.of(settings, pool_size=1)
    if migrations.is_missing(database):
        assert database.file is not None
        log = sqlite_files.orphaned_log(database.file)
        if log is None:
            return [CheckResult("database", "ok", f"none yet; the first command creates {database.file}")]
        return [
            CheckResult(
                "database",
                "fail",
                f"{database.file} was deleted or moved: its write-ahead log {log} is still there",
                f"move it back, or functory db restore FILE; to start anew, delete {log}",
            )
        ]
    try:
        took = database.ping()
        findings = [
            CheckResult("database", "ok", f"{database.name} answers in {console.format_duration(took)}")
        ]
        found = migrations.current(database)
        try:
            migrations.check(database)
        except Conflict as error:
            return [*findings, CheckResult("schema", "fail", f"{found or 'none'}; {error.why}", error.try_)]
        newer = (
            ""
            if found == migrations.HEAD
            else f", newer than this version's {migrations.HEAD}; both work on it"
        )
        findings.append(CheckResult("schema", "ok", f"{found}{newer}"))
        alive = worker_registry.alive(database, settings.lease_seconds)
        findings += _clock(database)
        findings += _events(database)
        findings += _guards(database)
    finally:
        database.close()
    if alive:
        findings.append(CheckResult("workers", "ok", f"{len(alive)} alive"))
    elif settings.embedded:
        findings.append(
            CheckResult(
                "workers", "ok", "none alive; commands that wait start one of their own (or: functory dev)"
            )
        )
    else:
        findings.append(CheckResult("workers", "warn", "none alive: nothing will run", "functory worker"))
    return findings


def _broker(settings: Any) -> list[CheckResult]:
    from functory.engine.events import exchange

    if settings.embedded:
        return [CheckResult("broker", "ok", "in memory, in this process")]
    if settings.brokerless:
        return [
            CheckResult("broker", "ok", "none: workers claim from the database, events are not published")
        ]
    exchange.ping(settings)
    return [CheckResult("broker", "ok", f"{settings.broker.split(':', 1)[0]} is reachable")]


def _sandbox(settings: Any) -> list[CheckResult]:
    from functory.engine.errors import FunctoryError
    from functory.workers.sandbox.checks import startup, tiers
    from functory.workers.sandbox.runner import Runner

    found = tiers.survey()
    try:
        with Runner.from_settings(settings) as runner:
            attacks = startup.check_startup(settings, runner)
            tier = runner.tier
    except FunctoryError as error:
        findings = [_failed("sandbox", error)]
    else:
        if tier == "none":
            findings = [
                CheckResult(
                    "sandbox",
                    "warn",
                    "OFF, because FUNCTORY_UNSAFE_NO_SANDBOX is set: functions can do everything that the worker can",
                    "run only functions that you trust"
                    if found.best == "none"
                    else f"unset FUNCTORY_UNSAFE_NO_SANDBOX: this machine offers tier {found.best}",
                )
            ]
        else:
            findings = [
                CheckResult(
                    "sandbox", "ok", f"tier {tier}; it stopped all {len(attacks)} attacks of its self-test"
                )
            ]
    return findings + [
        CheckResult(name, _missing_feature_verdict(found.best, name), why, try_)
        for name, why, try_ in _missing_features(found)
    ]


def _missing_features(found: Any) -> list[tuple[str, str, str]]:
    """List missing sandbox features: name, why, advice. Tiers that lack the same feature share an entry."""
    together: dict[tuple[str, str], list[str]] = {}
    for gap in found.gaps:
        together.setdefault((gap.why, gap.try_), []).append(gap.name)
    lacks = [(f"no tier {'/'.join(names)}", why, try_) for (why, try_), names in together.items()]
    return lacks + [(note.name, note.why, note.try_) for note in found.notes]


def _missing_feature_verdict(best: str, name: str) -> str:
    """The verdict on something that lacks: A is little more than B, which is much more than C."""
    return "ok" if best == "B" and name == "no tier A" else "warn"


def _secrets(settings: Any) -> list[CheckResult]:
    from functory.engine.access.key_ring import KeyRing
    from functory.engine.access.secrets import Secrets

    ring = KeyRing(settings)
    if ring.is_file and not ring.file.exists():
        if settings.embedded and settings.secret_key_file is None:
            return [CheckResult("secrets", "ok", f"no key yet; the first secret creates {ring.file}")]
        return [
            CheckResult("secrets", "warn", "no key: no secret can be set or used", "set FUNCTORY_SECRET_KEY")
        ]
    keys = [one.id.hex() for one in ring.load()]
    with _stored_data(settings) as database:
        used = Secrets(database, settings).key_usage() if database is not None else {}
    unknown = sum(count for id_, count in used.items() if id_ and id_ not in keys)
    former = sum(count for id_, count in used.items() if id_ != keys[0]) - unknown
    where = str(ring.file) if ring.is_file else "FUNCTORY_SECRET_KEY"
    found = [
        CheckResult("secrets", "ok", f"the key is {where}" + (f", {len(keys)} keys" if keys[1:] else ""))
    ]
    if unknown:
        advice = "add the key that sealed them to the ring, or set them again: functory secret set NAME"
        found.append(
            CheckResult("secrets", "fail", f"{unknown} are sealed with a key that is not there", advice)
        )
    if former and keys[1:]:
        advice = "functory secret rotate-key --reseal"
        found.append(CheckResult("secrets", "warn", f"{former} are sealed with a former key", advice))
    return found


@contextlib.contextmanager
def _stored_data(settings: Any) -> Iterator[Database | None]:
    """Open the database. Yields None without one, and for one of another schema, which ``_database`` reports."""
    from functory.engine.database import migrations
    from functory.engine.database.connection import Database

    database = Database.of(settings, pool_size=1)
    try:
        usable = not migrations.is_missing(database) and migrations.is_compatible(database)
        yield database if usable else None
    finally:
        database.close()


def _sources(settings: Any) -> list[CheckResult]:
    from functory.cli.output import source_health

    with _stored_data(settings) as database:
        if database is None:
            return []
        enabled, troubles = source_health.find_problems(database, embedded=settings.embedded)
    if not troubles:
        return [CheckResult("sources", "ok", f"{enabled} enabled")] if enabled else []
    return [CheckResult("sources", "warn", what, advice) for what, advice in troubles]


def _webhooks(settings: Any) -> list[CheckResult]:
    from functory.engine.access.secrets import Secrets
    from functory.engine.sources.store import Sources

    found: list[tuple[str, str]] = []
    with _stored_data(settings) as database:
        if database is None:
            return []
        rows = [row for row in Sources(database).list("webhook") if row["state"] == "enabled"]
        for row in rows:
            auth = row["config"]["auth"]
            if auth["type"] == "none":
                found.append(
                    (
                        f"{row['name']} has no authentication: anybody who knows its address can write events",
                        f"functory webhook add {row['name']} --auth token --secret NAME",
                    )
                )
            found += [
                (f"{row['name']} needs the secret {name}, which is not set", f"functory secret set {name}")
                for name in Secrets(database, settings).missing(list(auth.get("secret", ())))
            ]
    if not found:
        return [CheckResult("webhooks", "ok", f"{len(rows)} enabled")] if rows else []
    return [CheckResult("webhooks", "warn", what, advice) for what, advice in found]


def _disk(settings: Any) -> list[CheckResult]:
    from functory.engine.database.connection import Database

    file = Database.of(settings).file
    folders = [settings.home.absolute(), *([] if file is None else [file.parent.absolute()])]
    return [_free_space(place) for place in dict.fromkeys(map(_existing, folders))]


def _existing(place: Path) -> Path:
    while not place.exists():
        place = place.parent
    return place


def _free_space(place: Path) -> CheckResult:
    free = shutil.disk_usage(place).free
    text, advice = (
        f"{free / 1e9:.1f} GB free in {place}",
        "free some space, or set FUNCTORY_HOME to another disk",
    )
    if free < NO_SPACE_BYTES:
        return CheckResult("disk", "fail", f"no space left on device at {place}", advice)
    return (
        CheckResult("disk", "warn", text, advice)
        if free < MIN_FREE_BYTES
        else CheckResult("disk", "ok", text)
    )
