"""Meters and quotas: what trees, days, keys, agents and users may spend on models. Reserve, then settle.

A call reserves the most that it can cost before it is sent, in the transaction that lets it go, and the reservation is
replaced by its real cost when it ends. So the sum of costs cannot exceed a limit, whatever runs at the same time. The
rows are locked in one order: meters by root, then quotas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.agents import limits_reached
from functory.engine.agents.limits_reached import Amount, LimitReached
from functory.engine.agents.money import nano_dollars
from functory.engine.database import audit, row_locks
from functory.engine.database.connection import Database
from functory.engine.database.schema import execution, meter, quota, quota_day
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound
from functory.engine.events import store as event_store
from functory.engine.settings import Settings

# The limits of a tree that people may raise, by the name of the setting that is their default.
TREE_LIMITS = ("usd", "tokens", "calls", "tool_calls", "children", "proposals")
SCOPES = ("all", "key", "agent", "user")
_SOURCE = "/functory/budgets"

# A quota that a call counts against: its scope, its name, and the day on which it was reserved.
QuotaKey = tuple[str, str, date]


def new_meter(tx: Tx, root_id: str, settings: Settings) -> dict[str, Any]:
    """Return the meter of a tree that has none, with the limits of the settings."""
    limits = {
        "usd_limit": nano_dollars(settings.tree_usd, "tree_usd"),
        "tokens_limit": settings.tree_tokens,
        "calls_limit": settings.tree_calls,
        "tool_calls_limit": settings.tree_tool_calls,
        "children_limit": settings.tree_children,
        "proposals_limit": settings.tree_proposals,
    }
    zero = dict.fromkeys(
        (
            "usd_spent",
            "usd_reserved",
            "tokens_spent",
            "tokens_reserved",
            "calls",
            "tool_calls",
            "children",
            "proposals",
        ),
        0,
    )
    return {
        "root_id": root_id,
        **limits,
        **zero,
        "deadline_at": tx.now + timedelta(seconds=settings.tree_seconds),
        "warned_at": None,
        "exceeded_at": None,
        "created_at": tx.now,
    }


def ensure(tx: Tx, root_id: str, settings: Settings) -> None:
    """Give a tree its meter, if it has none."""
    tx.insert_missing(meter, [new_meter(tx, root_id, settings)])


class Spending:
    """The meters and quotas of one transaction's calls, locked until the commit. :meth:`write` stores the changes."""

    def __init__(self, tx: Tx, roots: Iterable[str], quotas: Iterable[QuotaKey], settings: Settings) -> None:
        self._tx = tx
        wanted = [new_meter(tx, root, settings) for root in sorted(set(roots))]
        self._meters = {key[0]: row for key, row in row_locks.lock(tx, meter, wanted).items()}
        self._limits = _quota_limits(tx, settings)
        self._days = row_locks.lock(tx, quota_day, [_new_day(*key) for key in sorted(set(quotas))])
        self._changed: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []

    def reserve(self, root_id: str, quotas: Sequence[QuotaKey], amount: Amount) -> LimitReached | None:
        """Reserve the most that a call can cost. Returns the limit that does not allow it; then nothing changes."""
        own = self._meters[root_id]
        reached = limits_reached.of_tree(own, amount, self._tx.now)
        if reached is not None:
            self._tell_once(own, ("meter", root_id), "exceeded", root_id, reached)
            return reached
        for key in quotas:
            day, limits = self._days[key], self._limits.get(key[:2], _UNLIMITED)
            reached = limits_reached.of_quota(" ".join(key[:2]).strip(), limits, day, amount)
            if reached is not None:
                self._tell_once(day, ("day", *key), "exceeded", root_id, reached)
                return reached
        self._add(own, ("meter", root_id), usd_reserved=amount.usd, tokens_reserved=amount.tokens, calls=1)
        for key in quotas:
            self._add(
                self._days[key],
                ("day", *key),
                usd_reserved=amount.usd,
                tokens_reserved=amount.tokens,
                calls=1,
            )
        return None

    def settle(
        self, root_id: str, quotas: Sequence[QuotaKey], reserved: Amount, spent: Amount, *, calls: int = 0
    ) -> None:
        """Replace a reservation by what was spent. ``calls`` is -1 for a call that was not sent after all."""
        change = {
            "usd_reserved": -reserved.usd,
            "tokens_reserved": -reserved.tokens,
            "usd_spent": spent.usd,
            "tokens_spent": spent.tokens,
            "calls": calls,
        }
        own = self._meters[root_id]
        self._add(own, ("meter", root_id), **change)
        for limit in ("usd", "tokens"):
            used = own[f"{limit}_spent"] + own[f"{limit}_reserved"]
            if limits_reached.is_near(own[f"{limit}_limit"], used):
                reached = LimitReached("tree", limit, own[f"{limit}_limit"], used, 0)
                self._tell_once(own, ("meter", root_id), "warned", root_id, reached)
        for key in quotas:
            day, limits = self._days[key], self._limits.get(key[:2], _UNLIMITED)
            self._add(day, ("day", *key), **change)
            for limit in ("usd", "tokens"):
                used = day[f"{limit}_spent"] + day[f"{limit}_reserved"]
                if limits_reached.is_near(limits[limit], used):
                    maximum = limits[limit] or 0
                    reached = LimitReached(" ".join(key[:2]).strip(), limit, maximum, used, 0)
                    self._tell_once(day, ("day", *key), "warned", root_id, reached)

    def write(self) -> None:
        """Store the changes, and the events about limits that came near or were reached."""
        meters = [row for key, row in self._changed.items() if key[0] == "meter"]
        days = [row for key, row in self._changed.items() if key[0] == "day"]
        self._tx.update_rows(meter, meters)
        self._tx.update_rows(quota_day, days)
        if self._events:
            event_store.append(self._tx, self._events)
        self._changed, self._events = {}, []

    def _add(self, row: dict[str, Any], key: tuple[Any, ...], **change: int) -> None:
        for name, value in change.items():
            row[name] += value
        self._changed[key] = row

    def _tell_once(
        self, row: dict[str, Any], key: tuple[Any, ...], what: str, root_id: str, reached: LimitReached
    ) -> None:
        if row[f"{what}_at"] is not None:
            return
        row[f"{what}_at"] = self._tx.now
        self._changed[key] = row
        type_ = "budget.exceeded" if what == "exceeded" else "budget.warning"
        data = {"root_id": root_id, **reached.as_json()}
        self._events.append(event_store.record(self._tx, type_, root_id, data, source=_SOURCE))


_UNLIMITED: Mapping[str, int | None] = {"usd": None, "tokens": None, "calls": None}


def quota_keys(day: date, *, key: str | None, agent: str | None, user: str | None) -> list[QuotaKey]:
    """Return the quotas that a call of this day counts against, in the order in which they are locked. ``key`` is the
    name of the secret that its provider gets.
    """
    named = {"key": key, "agent": agent, "user": user}
    return sorted([("all", "", day), *((scope, name, day) for scope, name in named.items() if name)])


class Budgets:
    """What people see and change of meters and quotas."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def tree(self, id_: str) -> dict[str, Any]:
        """Return the meter of the tree of an execution. Raises :class:`NotFound` for one that has asked no model."""
        with self._database.read() as tx:
            row = tx.first(sa.select(meter).where(meter.c.root_id == _root_of(tx, id_)))
        if row is None:
            raise _no_meter(id_)
        return row

    def raise_tree(self, id_: str, limits: Mapping[str, Any], *, author: str) -> dict[str, Any]:
        """Change limits of the tree of an execution: any of ``usd``, ``tokens``, ``calls``, ``tool_calls``,
        ``children``, ``proposals``, and ``seconds`` from now. Returns its meter.
        """
        if unknown := next((name for name in limits if name not in (*TREE_LIMITS, "seconds")), None):
            raise Invalid(f"a tree has no limit {unknown!r}", f"they are {', '.join(TREE_LIMITS)}, seconds")
        if not limits:
            raise Invalid("no limit is named", f"they are {', '.join(TREE_LIMITS)}, seconds")
        with self._database.write() as tx:
            root = _root_of(tx, id_)
            row = tx.first(sa.select(meter).where(meter.c.root_id == root).with_for_update())
            if row is None:
                raise _no_meter(id_)
            values: dict[str, Any] = {"warned_at": None, "exceeded_at": None}
            for name, given in limits.items():
                if name == "seconds":
                    values["deadline_at"] = tx.now + timedelta(seconds=_seconds(given))
                else:
                    values[f"{name}_limit"] = _limit(name, given)
            tx.execute(sa.update(meter).where(meter.c.root_id == root).values(values))
            audit.append(tx, author, "budget.change", root, {"limits": dict(limits)})
            tx.wake("llm")
            return {**row, **values}

    def quotas(self) -> list[dict[str, Any]]:
        """Return every quota with what was used of it today, and days without a quota that have used something."""
        with self._database.read() as tx:
            return quotas_today(tx, self._settings)

    def set_quota(self, scope: str, name: str, limits: Mapping[str, Any], *, author: str) -> dict[str, Any]:
        """Set what may be spent in a day: ``usd``, ``tokens`` and ``calls``. Returns the quota."""
        choices.check("scope", [scope], SCOPES)
        if (scope == "all") != (not name):
            raise Invalid("wrong name", "the quota of all has no name, every other one has")
        if unknown := next((one for one in limits if one not in _UNLIMITED), None):
            raise Invalid(f"a quota has no limit {unknown!r}", f"they are {', '.join(_UNLIMITED)}")
        if not any(limits.get(one) is not None for one in _UNLIMITED):
            raise Invalid("no limit is named", f"they are {', '.join(_UNLIMITED)}")
        with self._database.write() as tx:
            row = {
                "scope": scope,
                "name": name,
                **{one: None if limits.get(one) is None else _limit(one, limits[one]) for one in _UNLIMITED},
                "author": author,
                "updated_at": tx.now,
            }
            before = tx.first(sa.select(quota).where(quota.c.scope == scope, quota.c.name == name))
            tx.upsert(quota, [row], _replace)
            # A quota that is set anew warns anew.
            today = quota_day.c.day == tx.now.date()
            own = quota_day.c.scope == scope, quota_day.c.name == name
            tx.execute(sa.update(quota_day).where(today, *own).values(warned_at=None, exceeded_at=None))
            audit.append(
                tx,
                author,
                "quota.set",
                f"{scope} {name}".strip(),
                {one: row[one] for one in _UNLIMITED},
                before=audit.digest(None if before is None else {one: before[one] for one in _UNLIMITED}),
                after=audit.digest({one: row[one] for one in _UNLIMITED}),
            )
            tx.wake("llm")
        return row

    def remove_quota(self, scope: str, name: str, *, author: str) -> None:
        """Delete a quota: then nothing limits a day of that scope, but the setting ``day_usd`` for all together."""
        choices.check("scope", [scope], SCOPES)
        with self._database.write() as tx:
            gone = tx.execute(sa.delete(quota).where(quota.c.scope == scope, quota.c.name == name))
            if not gone.rowcount:
                raise NotFound(f"there is no quota {scope} {name}".rstrip(), try_="functory budget quotas")
            audit.append(tx, author, "quota.remove", f"{scope} {name}".strip())


def _root_of(tx: Tx, id_: str) -> str:
    """Return the root of an execution; an id that is none is a root itself, of what a person asked."""
    whole = event_store.as_id(id_, "execution")
    return tx.scalar(sa.select(execution.c.root_id).where(execution.c.id == whole)) or whole


def _no_meter(id_: str) -> NotFound:
    return NotFound(f"the tree of {id_} has no meter", "it has asked no language model", "functory llm calls")


def quotas_today(tx: Tx, settings: Settings) -> list[dict[str, Any]]:
    """Return every quota with what was used of it today, and days without a quota that have used something.

    ``usd``, ``tokens`` and ``calls_limit`` are the limits, None for what is not limited.
    """
    limits, today = _quota_limits(tx, settings), tx.now.date()
    days = {
        (row["scope"], row["name"]): row
        for row in tx.rows(sa.select(quota_day).where(quota_day.c.day == today))
    }
    found = []
    for scope, name in sorted({*limits, *days}):
        limit = limits.get((scope, name), _UNLIMITED)
        used = days.get((scope, name)) or _new_day(scope, name, today)
        found.append({**used, "usd": limit["usd"], "tokens": limit["tokens"], "calls_limit": limit["calls"]})
    return found


def _replace(new: Any) -> dict[str, Any]:
    return {one: getattr(new, one) for one in ("usd", "tokens", "calls", "author", "updated_at")}


def _quota_limits(tx: Tx, settings: Settings) -> dict[tuple[str, str], Mapping[str, int | None]]:
    found: dict[tuple[str, str], Mapping[str, int | None]] = {
        (row["scope"], row["name"]): {one: row[one] for one in _UNLIMITED}
        for row in tx.rows(sa.select(quota))
    }
    # Without a quota of one's own for all, the setting holds.
    usual = {"usd": nano_dollars(settings.day_usd, "day_usd"), "tokens": None, "calls": None}
    found.setdefault(("all", ""), usual)
    return found


def _new_day(scope: str, name: str, day: Any) -> dict[str, Any]:
    return {
        "scope": scope,
        "name": name,
        "day": day,
        "usd_spent": 0,
        "usd_reserved": 0,
        "tokens_spent": 0,
        "tokens_reserved": 0,
        "calls": 0,
        "warned_at": None,
        "exceeded_at": None,
    }


def _limit(name: str, given: Any) -> int:
    if name == "usd":
        return nano_dollars(given, "usd")
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 10**15:
        raise Invalid(f"wrong {name} {str(given)[:40]}", "it takes a whole number from 0 to 10^15")
    return given


def _seconds(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 10**9:
        raise Invalid(f"wrong seconds {str(given)[:40]}", "it takes a number from 0 to 10^9")
    return float(given)


def take(tx: Tx, root_id: str, **counts: int) -> LimitReached | None:
    """Count ``tool_calls``, ``children`` or ``proposals`` of a tree. Returns the limit that does not allow it; then
    nothing is counted.
    """
    row = tx.first(sa.select(meter).where(meter.c.root_id == root_id).with_for_update())
    assert row is not None
    for name, count in counts.items():
        if row[name] + count > row[f"{name}_limit"]:
            return LimitReached("tree", _COUNTED[name], row[f"{name}_limit"], row[name], count)
    changed = {name: row[name] + count for name, count in counts.items()}
    tx.execute(sa.update(meter).where(meter.c.root_id == root_id).values(changed))
    return None


def deadline(tx: Tx, seconds: float) -> Any:
    """Return the time at which a tree that begins now is over."""
    return tx.now + timedelta(seconds=seconds)


def extend_deadline(tx: Tx, root_id: str, seconds: float) -> None:
    """Give a tree the time back in which it waited for a person."""
    row = tx.first(sa.select(meter.c.deadline_at).where(meter.c.root_id == root_id).with_for_update())
    if row is not None:
        later = row["deadline_at"] + timedelta(seconds=seconds)
        tx.execute(sa.update(meter).where(meter.c.root_id == root_id).values(deadline_at=later))


_COUNTED: Mapping[str, limits_reached.Limit] = {
    "tool_calls": "tool_calls",
    "children": "children",
    "proposals": "proposals",
}
