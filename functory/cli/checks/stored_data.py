"""Checks of the database and of what is in it: schema, clocks, events, queues, invariants, guards and workers."""

from __future__ import annotations

from datetime import UTC, datetime

from functory.cli.checks.finding import Finding, failed
from functory.cli.checks.installation import Installation
from functory.terminal.console import count_of, format_duration

# Work that has waited longer than this has no role that takes it, or too few of them.
LONG_WAIT_SECONDS = 60.0
# Differences of clocks below this are of the measurement, or of NTP at work.
SKEW_SECONDS = 1.0
# No version of Functory is older: a clock before it is not set.
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)


def database(installation: Installation) -> list[Finding]:
    """The database and its schema."""
    from functory.engine.database import migrations, postgres_server, sqlite_files
    from functory.engine.errors import Conflict, Unavailable

    stored = installation.database
    if migrations.is_missing(stored):
        assert stored.file is not None
        log = sqlite_files.orphaned_log(stored.file)
        if log is None:
            return [Finding("database", "ok", f"none yet; the first command creates {stored.file}")]
        return [
            Finding(
                "database",
                "fail",
                f"{stored.file} was deleted or moved: its write-ahead log {log} is still there",
                f"move it back, or functory db restore FILE; to start anew, delete {log}",
            )
        ]
    took = stored.ping()
    findings = [Finding("database", "ok", f"{stored.name} answers in {format_duration(took)}")]
    findings += [
        Finding("database", "fail" if one.grave else "warn", f"{one.what}: {one.why}", one.try_)
        for one in postgres_server.problems(stored)
    ]
    try:
        found = migrations.current(stored)
        try:
            migrations.check(stored)
        except Conflict as error:
            return [*findings, Finding("schema", "fail", f"{found or 'none'}; {error.why}", error.try_)]
    except Unavailable as error:
        return [*findings, failed("schema", error)]
    newer = (
        "" if found == migrations.HEAD else f", newer than this version's {migrations.HEAD}; both work on it"
    )
    return [*findings, Finding("schema", "ok", f"{found}{newer}")]


def clock(installation: Installation) -> list[Finding]:
    """The clocks of this machine and of the database server. The engine's time is the server's."""
    stored = installation.data
    if stored is None:
        return []
    server = stored.clock.wall()
    findings: list[Finding] = []
    if server < EARLIEST:
        whose = "this machine's" if stored.file is not None else "the database server's"
        findings.append(
            Finding(
                "clock",
                "fail",
                f"{whose} clock says {server:%Y-%m-%d %H:%M} UTC, which is before this program was made: it was "
                "never set. Schedules, leases, logins and certificates go by it",
                "timedatectl set-ntp true, or date -s; then start the roles again",
            )
        )
    ahead = (stored.clock.now() - server).total_seconds()
    if ahead >= SKEW_SECONDS:
        findings.append(
            Finding(
                "clock",
                "warn",
                f"times are {format_duration(ahead)} ahead of the database server's clock, which was set back",
                "check that clock (NTP); they come back to it at half speed",
            )
        )
    if stored.file is not None:
        return findings or [Finding("clock", "ok", "this machine's, as of every database in a file")]
    skew = (datetime.now(UTC) - server).total_seconds()
    if abs(skew) >= SKEW_SECONDS:
        findings.append(
            Finding(
                "clock",
                "warn",
                f"this machine's clock is {format_duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} "
                "the database server's: functions see another time than events have, and logins may be refused",
                "set both by NTP: timedatectl set-ntp true",
            )
        )
    return findings or [Finding("clock", "ok", f"{format_duration(abs(skew))} from the database server's")]


def queues(installation: Installation) -> list[Finding]:
    """Work that no role has taken, and the kill switch."""
    from functory.engine.maintenance import backlogs

    stored, settings = installation.data, installation.settings
    if stored is None:
        return []
    with stored.read() as tx:
        found = backlogs.read(tx)
    findings: list[Finding] = []
    if found.halted:
        findings.append(
            Finding(
                "queues", "warn", "the kill switch halts all triggers: events wait", "functory trigger unhalt"
            )
        )
    waits = [
        ("execution is due", found.executions, "worker"),
        ("event is not routed", 0.0 if found.halted else found.unrouted_events, "router"),
        ("event is not on the broker", found.unpublished_events if settings.publishes else 0.0, "router"),
    ]
    findings += [
        Finding(
            "queues",
            "warn",
            f"the oldest {what} for {format_duration(age)}: no {role} takes it, or there are too few",
            "functory dev" if settings.embedded else f"functory {role}",
        )
        for what, age, role in waits
        if age >= LONG_WAIT_SECONDS
    ]
    return findings or [
        Finding("queues", "ok", f"no work has waited for {format_duration(LONG_WAIT_SECONDS)}")
    ]


def events(installation: Installation) -> list[Finding]:
    """Events that no router could decide about."""
    from functory.engine.events import routing_queue

    stored = installation.data
    if stored is None:
        return []
    with stored.read() as tx:
        quarantined = routing_queue.count_quarantined(tx)
    if not quarantined:
        return []
    advice = "functory event list --state quarantined; when the cause is fixed: functory event release --all"
    return [
        Finding("events", "warn", f"{quarantined:,} quarantined: no router could decide about them", advice)
    ]


def invariants(installation: Installation) -> list[Finding]:
    """What the last checks of the scheduler found."""
    from functory.engine.maintenance import verifier

    stored = installation.data
    if stored is None:
        return []
    with stored.read() as tx:
        results, now = verifier.last_results(tx), tx.now
    broken = [f"{code} {count_of(row['count'], 'time')}" for code, row in results.items() if row["count"]]
    if broken:
        return [Finding("invariants", "fail", f"do not hold: {', '.join(broken)}", "functory verify")]
    if not results:
        return [Finding("invariants", "ok", "not checked yet: a scheduler checks them, or functory verify")]
    age = (now - max(row["time"] for row in results.values())).total_seconds()
    return [Finding("invariants", "ok", f"all hold, checked {format_duration(max(0.0, age))} ago")]


def guards(installation: Installation) -> list[Finding]:
    """What guards have dropped and was not resumed."""
    from functory.cli.output import dropped_matches
    from functory.engine.firings.suppressions import Suppressions
    from functory.engine.firings.trigger_store import Triggers

    if installation.data is None:
        return []
    rows = Suppressions(installation.data).dropped(dropped_matches.DAY)
    existing = {row["name"] for row in Triggers(installation.data).definitions()} if rows else set[str]()
    found = dropped_matches.describe(rows, existing)
    return [Finding("guards", "warn", what, advice) for what, advice in found]


def workers(installation: Installation) -> list[Finding]:
    """Workers that are alive."""
    from functory.engine.executions import worker_registry

    stored, settings = installation.data, installation.settings
    if stored is None:
        return []
    alive = worker_registry.alive(stored, settings.lease_seconds)
    if alive:
        return [Finding("workers", "ok", f"{len(alive)} alive")]
    if settings.embedded:
        return [
            Finding(
                "workers", "ok", "none alive; commands that wait start one of their own (or: functory dev)"
            )
        ]
    return [Finding("workers", "warn", "none alive: nothing will run", "functory worker")]
