"""Invariants of calls of language models, and of what they cost: I21, I22, I23.

The ledger is the tries: each has what it counted for. A call that is sent has a reservation beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.dialects import utc_day
from functory.engine.database.schema import llm_call, llm_try, meter, quota_day
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations

_ENDED = ("succeeded", "failed", "unknown", "refused", "cancelled")
_sent = llm_call.c.state == "sent"


def wrong_meters(scope: QueryScope) -> Sequence[Violations]:
    """I21: a meter that is not the sum of its calls."""
    recent = scope.ids_since(llm_call.c.root_id)
    calls = (
        sa.select(
            llm_call.c.root_id,
            _sum(llm_call.c.tries).label("tries"),
            _sum(sa.case((_sent, llm_call.c.reserved), else_=0)).label("reserved"),
            _sum(sa.case((_sent, llm_call.c.reserved_tokens), else_=0)).label("reserved_tokens"),
        )
        .where(*recent)
        .group_by(llm_call.c.root_id)
        .subquery("of_calls")
    )
    tries = (
        sa.select(
            llm_call.c.root_id, _sum(llm_try.c.cost).label("cost"), _sum(llm_try.c.tokens).label("tokens")
        )
        .select_from(llm_try.join(llm_call))
        .where(*recent)
        .group_by(llm_call.c.root_id)
        .subquery("of_tries")
    )
    pairs = (
        ("usd_spent", tries.c.cost, "the meter of {id} has spent other than its calls have cost"),
        ("tokens_spent", tries.c.tokens, "the meter of {id} has spent other tokens than its calls"),
        (
            "usd_reserved",
            calls.c.reserved,
            "the meter of {id} has reserved other than its calls that are sent",
        ),
        (
            "tokens_reserved",
            calls.c.reserved_tokens,
            "the meter of {id} has reserved other tokens than its calls that are sent",
        ),
        ("calls", calls.c.tries, "the meter of {id} counts other calls than were sent"),
    )
    wrong = [(meter.c[name] != sa.func.coalesce(found, 0), words) for name, found, words in pairs]
    return [
        violations(message_for(*wrong), meter.c.root_id)
        .select_from(
            meter.outerjoin(calls, calls.c.root_id == meter.c.root_id).outerjoin(
                tries, tries.c.root_id == meter.c.root_id
            )
        )
        .where(sa.or_(*(condition for condition, _ in wrong)), *scope.ids_since(meter.c.root_id)),
        violations("the tree {id} has calls of models and no meter", llm_call.c.root_id)
        .select_from(llm_call.outerjoin(meter, meter.c.root_id == llm_call.c.root_id))
        .where(meter.c.root_id.is_(None), *recent),
    ]


def wrong_days(scope: QueryScope) -> Sequence[Violations]:
    """I22: a day that is not the sum of what was sent in it. Only a check of all rows can tell."""
    if scope.shape.since:
        return [violations("").where(sa.false())]
    tries = sa.select(
        utc_day(llm_try.c.at).label("day"),
        llm_try.c.cost,
        llm_try.c.tokens,
        sa.literal(0).label("reserved"),
        sa.literal(0).label("reserved_tokens"),
    )
    sent = sa.select(
        utc_day(llm_call.c.sent_at),
        sa.literal(0),
        sa.literal(0),
        llm_call.c.reserved,
        llm_call.c.reserved_tokens,
    ).where(_sent)
    each = sa.union_all(tries, sent).subquery("each_sending")
    found = (
        sa.select(
            each.c.day,
            sa.func.count().label("calls"),
            *(_sum(each.c[name]).label(name) for name in ("cost", "tokens", "reserved", "reserved_tokens")),
        )
        .group_by(each.c.day)
        .subquery("of_day")
    )
    day = sa.cast(quota_day.c.day, sa.String)
    pairs = (
        ("usd_spent", found.c.cost, "the day {name} has spent other than its calls have cost"),
        ("tokens_spent", found.c.tokens, "the day {name} has spent other tokens than its calls"),
        ("usd_reserved", found.c.reserved, "the day {name} has reserved other than its calls that are sent"),
        (
            "tokens_reserved",
            found.c.reserved_tokens,
            "the day {name} has reserved other tokens than its calls that are sent",
        ),
        ("calls", found.c.calls, "the day {name} counts other calls than were sent"),
    )
    wrong = [(quota_day.c[name] != sa.func.coalesce(value, 0), words) for name, value, words in pairs]
    return [
        violations(message_for(*wrong), None, day)
        .select_from(quota_day.outerjoin(found, found.c.day == day))
        .where(
            quota_day.c.scope == "all",
            sa.or_(*(condition for condition, _ in wrong)),
            *scope.unpruned_days(quota_day.c.day),
        ),
    ]


def wrong_calls(scope: QueryScope) -> Sequence[Violations]:
    """I23: a call that is sent is held by a gateway, no other is; its cost and its tries are those of the ledger."""
    recent = scope.ids_since(llm_call.c.id)
    tries = (
        sa.select(llm_try.c.call_id, sa.func.count().label("count"), _sum(llm_try.c.cost).label("cost"))
        .where(*scope.ids_since(llm_try.c.call_id))
        .group_by(llm_try.c.call_id)
        .subquery("its_tries")
    )
    held = sa.or_(
        llm_call.c.lease_until.is_not(None), llm_call.c.reserved != 0, llm_call.c.reserved_tokens != 0
    )
    wrong = (
        (
            sa.and_(_sent, sa.or_(llm_call.c.lease_until.is_(None), llm_call.c.gateway.is_(None))),
            "call {id} of model {name} is sent, and no gateway holds it",
        ),
        (
            sa.and_(_sent, llm_call.c.lease_until < scope.overdue_cutoff()),
            "call {id} of model {name} is sent, and the lease of its gateway has run out",
        ),
        (
            sa.and_(llm_call.c.state != "sent", held),
            "call {id} of model {name} is not sent, and has a lease or a reservation",
        ),
        (
            llm_call.c.state.in_(_ENDED) != llm_call.c.ended_at.is_not(None),
            "call {id} of model {name} has ended without a time, or has a time and is open",
        ),
        (
            llm_call.c.tries - sa.case((_sent, 1), else_=0) != sa.func.coalesce(tries.c.count, 0),
            "call {id} of model {name} has another number of tries than it counts",
        ),
        (
            llm_call.c.cost != sa.func.coalesce(tries.c.cost, 0),
            "call {id} of model {name} has another cost than its tries",
        ),
    )
    return [
        violations(message_for(*wrong), llm_call.c.id, llm_call.c.asked)
        .select_from(llm_call.outerjoin(tries, tries.c.call_id == llm_call.c.id))
        .where(sa.or_(*(condition for condition, _ in wrong)), *recent),
    ]


def _sum(column: Any) -> Any:
    # PostgreSQL's sum of a bigint is a numeric.
    return sa.cast(sa.func.sum(column), sa.BigInteger)
