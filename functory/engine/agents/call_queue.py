"""The queue of calls as a gateway sees it: claim what may be sent, store what came of it.

:func:`claim` lets calls go: model by model, as breaker, rates and slots allow, each with its reservation
(:mod:`functory.engine.agents.meters`). A call is *sent* from the commit of that transaction on: what happens to the
gateway afterwards, no row can say whether the provider has seen it. A gateway renews the leases of its calls; one
whose lease has run out is *unknown*. :func:`settle` stores outcomes.

Rows are locked in one order: calls, models, meters, quotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import call_outcomes, call_spans, calls, meters, model_admission, models, money
from functory.engine.agents.call_outcomes import Answer, Failure, Outcome
from functory.engine.agents.limits_reached import Amount, LimitReached
from functory.engine.agents.meters import QuotaKey, Spending
from functory.engine.agents.model_admission import Admission, Health
from functory.engine.agents.requests import Request
from functory.engine.database.schema import Instant, gateway, llm_call, llm_partial, llm_try, model_health
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.serialization.control_characters import one_line
from functory.engine.settings import Settings
from functory.engine.telemetry import traces

# A gateway renews its leases three times in this time (seconds).
LEASE_SECONDS = 30.0
# A call that could not be sent for so long (seconds) fails: its model is not available.
MOST_WAIT_SECONDS = 600.0
# Calls that one transaction ends.
PAGE = 100

_QUEUED_MODELS = sa.select(llm_call.c.asked).where(llm_call.c.state == "queued").distinct()
_DUE = (
    sa.select(llm_call)
    .where(
        llm_call.c.state == "queued",
        llm_call.c.asked == sa.bindparam("model"),
        llm_call.c.due_at <= sa.bindparam("now", type_=Instant),
    )
    .order_by(llm_call.c.due_at, llm_call.c.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_IN_FLIGHT = (
    sa.select(llm_call.c.asked, sa.func.count()).where(llm_call.c.state == "sent").group_by(llm_call.c.asked)
)
_HEALTH = (
    sa.select(model_health)
    .where(model_health.c.model.in_(sa.bindparam("models", expanding=True)))
    .order_by(model_health.c.model)
    .with_for_update()
)
_NEXT_DUE = sa.select(sa.func.min(llm_call.c.due_at)).where(
    llm_call.c.state == "queued", llm_call.c.due_at > sa.bindparam("now", type_=Instant)
)


@dataclass(frozen=True)
class Sent:
    """A call that its gateway must send now: its row, its request, and its model."""

    row: Mapping[str, Any]
    request: Request
    model: Mapping[str, Any]


@dataclass(frozen=True)
class Claimed:
    """The calls to send, and the seconds after which another look is needed; None when only a wake-up decides.

    ``ended`` are the changes of the calls that were not sent but refused, or failed.
    """

    sent: Sequence[Sent]
    again: float | None
    ended: Sequence[Mapping[str, Any]] = ()


def claim(tx: Tx, name: str, capacity: int, settings: Settings) -> Claimed:
    """queued → sent for up to ``capacity`` calls. Those that a limit does not allow are *refused* instead, and those
    whose model is not available for long go to its next fallback or fail.
    """
    asked = sorted(row["asked"] for row in tx.rows(_QUEUED_MODELS))
    if not asked or capacity < 1:
        return Claimed([], None)
    known = models.load_all(tx)
    admissions = _admissions(tx, [name for name in asked if name in known], known)
    picked: list[tuple[dict[str, Any], Admission]] = []
    ended: list[dict[str, Any]] = []
    again: list[timedelta] = []
    for one in asked:
        admission = admissions.get(one)
        if admission is None:
            gone = tx.rows(_DUE, {"model": one, "now": tx.now, "limit": capacity})
            ended += [_failed(tx, row, f"the model {one} was removed") for row in gone]
            continue
        free = min(admission.free(), capacity - len(picked))
        if free < 1:
            ended += _give_up(tx, one, admission, known)
            wait = admission.until_free()
            if wait is not None:
                again.append(wait)
            continue
        for row in tx.rows(_DUE, {"model": one, "now": tx.now, "limit": free}):
            if admission.model["state"] != "enabled":
                ended.append(_failed(tx, row, f"the model {one} is disabled"))
                continue
            amount = worst_case(row, admission.model)
            wait = admission.wait(amount.tokens)
            if wait > timedelta():
                tx.execute(_set_due(row["id"], tx.now + wait))
                again.append(wait)
                continue
            admission.take(row["id"], amount.tokens)
            picked.append((row, admission))
    sent, refused = _reserve(tx, picked, name, settings)
    _store_health(tx, admissions.values())
    ended += refused
    if ended:
        tx.update_rows(llm_call, ended)
        tx.wake("answers")
    due = tx.scalar(_NEXT_DUE, {"now": tx.now})
    if due is not None:
        again.append(due - tx.now)
    found = [row for row, _ in sent]
    asked_for = calls.load_requests(tx, found)
    return Claimed(
        [Sent(row, request, model) for (row, model), request in zip(sent, asked_for, strict=True)],
        min(again).total_seconds() if again else None,
        ended,
    )


def worst_case(row: Mapping[str, Any], model: Mapping[str, Any]) -> Amount:
    """Return the most that a call can cost at a model: no tokenizer makes two tokens of one byte."""
    repair = 2 * row["max_tokens"] + 1_024 if row["repair"] else 0
    tokens_in = row["request_bytes"] + repair
    return Amount(money.cost(model, tokens_in, row["max_tokens"]), tokens_in + row["max_tokens"])


def settle(
    tx: Tx, outcomes: Sequence[tuple[Sent, Outcome, float]], settings: Settings, draw: float
) -> list[dict[str, Any]]:
    """sent → succeeded, failed, unknown, or queued again, for calls that this gateway has sent; with the seconds that
    each try took. Returns the rows that have ended.

    A call that is no longer sent (its lease ran out, and it is *unknown*) stays so: its reservation was counted as
    spent. Its answer is dropped.
    """
    by_id = {sent.row["id"]: (sent, outcome, seconds) for sent, outcome, seconds in outcomes}
    rows = tx.rows(_SENT, {"ids": sorted(by_id)})
    known = models.load_all(tx)
    names = sorted({row["asked"] for row in rows} & set(known))
    healths = {row["model"]: Health.of(row) for row in tx.rows(_HEALTH, {"models": names})}
    keys = [key for row in rows for key in _quota_keys(row)]
    spending = Spending(tx, [row["root_id"] for row in rows], keys, settings)
    changed: list[dict[str, Any]] = []
    tries: list[dict[str, Any]] = []
    for row in rows:
        sent, outcome, seconds = by_id[row["id"]]
        spent, tokens = _spent(row, sent.model, outcome)
        spending.settle(
            row["root_id"],
            _quota_keys(row),
            Amount(row["reserved"], row["reserved_tokens"]),
            Amount(spent, tokens),
        )
        if row["asked"] in healths:
            healths[row["asked"]] = _health_after(tx, row, healths[row["asked"]], outcome)
        asked_for = known.get(row["model"])
        fallbacks = call_outcomes.following(asked_for, row["asked"]) if asked_for else []
        fallbacks = [name for name in fallbacks if name in known and known[name]["state"] == "enabled"]
        changed.append(_after(tx, row, outcome, spent, fallbacks, draw))
        tries.append(_try(row, outcome, Amount(spent, tokens), seconds))
    tx.update_rows(llm_call, changed)
    tx.insert(llm_try, tries)
    over = [row for row in changed if row["state"] != "queued"]
    tx.execute(sa.delete(llm_partial).where(llm_partial.c.call_id.in_([row["id"] for row in changed])))
    for name in sorted(healths):
        tx.update_rows(model_health, [healths[name].as_row(name)])
    spending.write()
    tx.wake(*(["answers"] if over else []), *(["llm"] if len(over) < len(changed) or over else []))
    found = {row["id"]: row for row in rows}
    whole = [{**found[row["id"]], **row} for row in over]
    _record(tx, whole)
    return whole


def renew(tx: Tx, name: str, started_at: datetime, ids: Sequence[str]) -> None:
    """Renew the row of a gateway, and the leases of the calls that it waits for."""
    row = {"name": name, "started_at": started_at, "seen_at": tx.now, "calls": len(ids)}
    tx.upsert(gateway, [row], _seen)
    tx.execute(
        sa.update(llm_call)
        .where(llm_call.c.id.in_(ids), llm_call.c.state == "sent", llm_call.c.gateway == name)
        .values(lease_until=tx.now + timedelta(seconds=LEASE_SECONDS))
    )


def _seen(new: Any) -> dict[str, Any]:
    return {"seen_at": new.seen_at, "calls": new.calls}


def leave(tx: Tx, name: str) -> None:
    """Remove the row of a gateway that ends."""
    tx.execute(sa.delete(gateway).where(gateway.c.name == name))


def gateways(tx: Tx) -> list[dict[str, Any]]:
    """Return the gateways that were seen within the time of a lease."""
    since = tx.now - timedelta(seconds=LEASE_SECONDS)
    return tx.rows(sa.select(gateway).where(gateway.c.seen_at > since).order_by(gateway.c.name))


def end_unclaimed(tx: Tx, limit: int = PAGE) -> list[dict[str, Any]]:
    """queued → failed for calls that code waits for while no gateway runs. Returns their changes.

    The calls of steps stay queued: nothing waits for them but a row.
    """
    since = tx.now - timedelta(seconds=LEASE_SECONDS)
    rows = tx.rows(_UNCLAIMED, {"since": since, "limit": limit})
    if not rows or gateways(tx):
        return []
    changes = [_failed(tx, row, "no gateway runs; start one: functory gateway") for row in rows]
    tx.update_rows(llm_call, changes)
    tx.execute(sa.delete(gateway).where(gateway.c.seen_at < since))
    tx.wake("answers")
    return changes


def end_lost(tx: Tx, settings: Settings, limit: int = PAGE) -> list[dict[str, Any]]:
    """sent → unknown for calls whose gateway is gone. Returns their rows. What they reserved stays spent."""
    rows = tx.rows(_LOST, {"now": tx.now, "limit": limit})
    if not rows:
        return []
    for health in tx.rows(_HEALTH, {"models": sorted({row["asked"] for row in rows})}):
        left = Health.of(health)
        for row in rows:
            left = model_admission.without_trial(left, row["id"])
        tx.update_rows(model_health, [left.as_row(health["model"])])
    keys = [key for row in rows for key in _quota_keys(row)]
    spending = Spending(tx, [row["root_id"] for row in rows], keys, settings)
    changed: list[dict[str, Any]] = []
    tries: list[dict[str, Any]] = []
    for row in rows:
        amount = Amount(row["reserved"], row["reserved_tokens"])
        spending.settle(row["root_id"], _quota_keys(row), amount, amount)
        message = f"the gateway {row['gateway']} ended before the answer came"
        changed.append({**_ended(tx, row, "unknown", message), **_charged(row)})
        seconds = max(0.0, (tx.now - row["sent_at"]).total_seconds())
        tries.append(_try(row, Failure("lost", message), amount, seconds))
    tx.update_rows(llm_call, changed)
    tx.insert(llm_try, tries)
    tx.execute(sa.delete(llm_partial).where(llm_partial.c.call_id.in_([row["id"] for row in rows])))
    spending.write()
    tx.wake("answers", "llm")
    found = {row["id"]: row for row in rows}
    return [{**found[row["id"]], **row} for row in changed]


_SENT = (
    sa.select(llm_call)
    .where(llm_call.c.id.in_(sa.bindparam("ids", expanding=True)), llm_call.c.state == "sent")
    .order_by(llm_call.c.id)
    .with_for_update()
)
_LOST = (
    sa.select(llm_call)
    .where(llm_call.c.state == "sent", llm_call.c.lease_until < sa.bindparam("now", type_=Instant))
    .order_by(llm_call.c.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)


_UNCLAIMED = (
    sa.select(llm_call)
    .where(
        llm_call.c.state == "queued",
        llm_call.c.fence.is_not(None),
        llm_call.c.due_at < sa.bindparam("since", type_=Instant),
    )
    .order_by(llm_call.c.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)


def _admissions(tx: Tx, names: Sequence[str], known: Mapping[str, Any]) -> dict[str, Admission]:
    """Lock the health of models, so that two gateways do not count the same slots, and return what each allows."""
    healths = {row["model"]: Health.of(row) for row in tx.rows(_HEALTH, {"models": sorted(names)})}
    in_flight = tx.pairs(_IN_FLIGHT)
    return {
        name: Admission(known[name], healths.get(name, Health()), int(in_flight.get(name, 0)), tx.now)
        for name in names
    }


def _store_health(tx: Tx, admissions: Any) -> None:
    rows = [one.health.as_row(one.model["name"]) for one in admissions]
    tx.update_rows(model_health, rows)


def _reserve(
    tx: Tx, picked: Sequence[tuple[dict[str, Any], Admission]], name: str, settings: Settings
) -> tuple[list[tuple[dict[str, Any], Mapping[str, Any]]], list[dict[str, Any]]]:
    """Reserve what calls can cost at most, and mark them as sent. Returns them with their models, and the changes of
    those that were refused.
    """
    if not picked:
        return [], []
    today = tx.now.date()

    def keys_of(row: Mapping[str, Any], admission: Admission) -> list[QuotaKey]:
        secret = admission.model["secret"]
        return meters.quota_keys(today, key=secret, agent=row["agent"], user=row["user_name"])

    wanted = [key for row, admission in picked for key in keys_of(row, admission)]
    spending = Spending(tx, [row["root_id"] for row, _ in picked], wanted, settings)
    sent: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
    refused: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    lease = tx.now + timedelta(seconds=LEASE_SECONDS)
    for row, admission in picked:
        amount, keys = worst_case(row, admission.model), keys_of(row, admission)
        reached = spending.reserve(row["root_id"], keys, amount)
        if reached is not None:
            refused.append(_refused(tx, row, reached))
            admission.in_flight -= 1
            admission.health = model_admission.without_trial(admission.health, row["id"])
            continue
        change = {
            "id": row["id"],
            "state": "sent",
            "tries": row["tries"] + 1,
            "model_tries": row["model_tries"] + 1,
            "reserved": amount.usd,
            "reserved_tokens": amount.tokens,
            "quotas": [[scope, name, day.isoformat()] for scope, name, day in keys],
            "gateway": name,
            "lease_until": lease,
            "sent_at": tx.now,
        }
        changes.append(change)
        sent.append(({**row, **change}, admission.model))
    tx.update_rows(llm_call, changes)
    spending.write()
    return sent, refused


def _give_up(
    tx: Tx, name: str, admission: Admission, known: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the changes of calls whose model's breaker is open: the next fallback is asked, or, after a long wait,
    none.
    """
    if admission.health.open_until is None:
        return []
    found: list[dict[str, Any]] = []
    for row in tx.rows(_DUE, {"model": name, "now": tx.now, "limit": 100}):
        asked_for = known.get(row["model"])
        fallbacks = call_outcomes.following(asked_for, name) if asked_for else []
        usable = [one for one in fallbacks if one in known and known[one]["state"] == "enabled"]
        if usable:
            tx.execute(_to_fallback(row["id"], usable[0]))
            tx.wake("llm")
        elif (tx.now - row["created_at"]).total_seconds() > MOST_WAIT_SECONDS:
            problem = admission.health.problem or "it does not answer"
            found.append(_failed(tx, row, f"the model {name} is not available: {problem}"))
    return found


def _set_due(id_: str, due_at: datetime) -> Any:
    return sa.update(llm_call).where(llm_call.c.id == id_).values(due_at=due_at)


def _to_fallback(id_: str, model: str) -> Any:
    return sa.update(llm_call).where(llm_call.c.id == id_).values(asked=model, model_tries=0, repair=None)


def _quota_keys(row: Mapping[str, Any]) -> list[QuotaKey]:
    return [(scope, name, datetime.fromisoformat(day).date()) for scope, name, day in row["quotas"]]


def _spent(row: Mapping[str, Any], model: Mapping[str, Any], outcome: Outcome) -> tuple[int, int]:
    """Return what a try has cost, and its tokens."""
    if isinstance(outcome, Answer):
        usage = outcome.usage
        cost = money.cost(model, usage.tokens_in, usage.tokens_out, usage.tokens_cached)
        return min(cost, money.MOST), usage.tokens_in + usage.tokens_out
    if outcome.kind == "lost" or outcome.charged:
        return row["reserved"], row["reserved_tokens"]
    return 0, 0


def _health_after(tx: Tx, row: Mapping[str, Any], health: Health, outcome: Outcome) -> Health:
    if isinstance(outcome, Answer) or outcome.kind == "final":
        after = model_admission.answered(health, row["id"])
    elif outcome.provider:
        after = model_admission.failed(health, row["id"], outcome.problem, tx.now)
    else:
        after = model_admission.without_trial(health, row["id"])
    if (after.open_until is None) != (health.open_until is None):
        opened = after.open_until is not None
        data = {"model": row["asked"], "problem": outcome.problem or ""}
        data |= {"until": after.open_until.isoformat()} if after.open_until else {}
        type_ = "model.opened" if opened else "model.closed"
        event_store.append(tx, [event_store.record(tx, type_, row["asked"], data, source="/functory/models")])
    return after


def _after(
    tx: Tx,
    row: Mapping[str, Any],
    outcome: Outcome,
    spent: int,
    fallbacks: Sequence[str],
    draw: float,
) -> dict[str, Any]:
    """Return the changes of a call after a try."""
    following = call_outcomes.next_of(row, fallbacks, outcome, tx.now, draw)
    change: dict[str, Any] = {
        "id": row["id"],
        "state": following.state,
        "asked": following.model,
        "model_tries": row["model_tries"] if following.same_model else 0,
        "repair": following.repair,
        "due_at": following.due_at or row["due_at"],
        "reserved": 0,
        "reserved_tokens": 0,
        "quotas": [],
        "lease_until": None,
        "cost": row["cost"] + spent,
        "tokens_in": row["tokens_in"],
        "tokens_out": row["tokens_out"],
        "tokens_cached": row["tokens_cached"],
        "estimated": row["estimated"],
        "response": None,
        "error": None,
        "finish_reason": None,
        "ended_at": None if following.state == "queued" else tx.now,
    }
    if isinstance(outcome, Answer):
        usage = outcome.usage
        change["tokens_in"] += usage.tokens_in
        change["tokens_out"] += usage.tokens_out
        change["tokens_cached"] += usage.tokens_cached
        change["estimated"] = row["estimated"] or usage.estimated
        change["finish_reason"] = one_line(outcome.finish_reason)[:32]
        if following.state == "succeeded":
            change["response"] = dict(outcome.response)
        elif following.state == "failed":
            change["error"] = {"message": outcome.problem, "answer": outcome.response.get("text")}
    elif following.state != "queued":
        change["error"] = {"message": outcome.problem, "status": outcome.status}
    return change


def _try(row: Mapping[str, Any], outcome: Outcome, spent: Amount, seconds: float) -> dict[str, Any]:
    failure = outcome if isinstance(outcome, Failure) else None
    return {
        "call_id": row["id"],
        "number": row["tries"],
        "model": row["asked"],
        "at": row["sent_at"],
        "status": outcome.status,
        "problem": outcome.problem,
        "retry_after": None if failure is None else failure.retry_after,
        "seconds": round(seconds, 6),
        "cost": spent.usd,
        "tokens": spent.tokens,
    }


def _refused(tx: Tx, row: Mapping[str, Any], reached: LimitReached) -> dict[str, Any]:
    change = _ended(tx, row, "refused", reached.sentence())
    change["error"]["limit"] = reached.as_json()
    return change


def _failed(tx: Tx, row: Mapping[str, Any], message: str) -> dict[str, Any]:
    return _ended(tx, row, "failed", message)


def _ended(tx: Tx, row: Mapping[str, Any], state: str, message: str) -> dict[str, Any]:
    """Return the changes of a call that ends without an answer."""
    changes = {
        "id": row["id"],
        "state": state,
        "asked": row["asked"],
        "error": {"message": message},
        "reserved": 0,
        "reserved_tokens": 0,
        "cost": row["cost"],
        "tokens_in": row["tokens_in"],
        "lease_until": None,
        "ended_at": tx.now,
    }
    _record(tx, [{**row, **changes}])
    return changes


def _record(tx: Tx, ended: Sequence[Mapping[str, Any]]) -> None:
    """Record the spans of calls that have ended (their rows), once this is committed."""
    if traces.recorder is not None and ended:
        traces.record_after_commit(tx.at_end, lambda: call_spans.of_calls(ended))


def _charged(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"cost": row["cost"] + row["reserved"]}


def any_open(tx: Tx) -> bool:
    """Return True when a call is queued or sent."""
    return any(
        tx.scalar(sa.select(llm_call.c.id).where(llm_call.c.state == state).limit(1)) is not None
        for state in ("queued", "sent")
    )


def store_partial(tx: Tx, texts: Mapping[str, str]) -> None:
    """Store the texts so far of answers that stream, by call. A call that has ended meanwhile has no such text."""
    open_ = tx.rows(
        sa.select(llm_call.c.id).where(llm_call.c.id.in_(sorted(texts)), llm_call.c.state == "sent")
    )
    rows = [{"call_id": row["id"], "text": texts[row["id"]], "at": tx.now} for row in open_]
    if not rows:
        return
    tx.upsert(llm_partial, rows, _longer)
    tx.wake("logs")


def _longer(new: Any) -> dict[str, Any]:
    return {"text": new.text, "at": new.at}
