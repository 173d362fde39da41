"""Faults of triggers: loops, fork bombs and poison events. Guards stop them exactly at their limits.

All other work continues. No process is killed here: triggers and functions cause the harm, with two routers and two
workers. Afterwards the system is idle, and no further event comes by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

import sqlalchemy as sa

from functory.engine.database.schema import breaker, execution, firing, trigger
from tests.chaos import workload
from tests.chaos.deployment import LAYOUT
from tests.chaos.fault import Chaos, Fault, add
from tests.chaos.outcome_counts import Counts
from tests.chaos.workload import ORDERS, Workload

# No event may come in this time, which is some rounds of every loop of the roles.
IDLE_SECONDS = 3.0

BALL = """
def HERE(event: dict) -> None:
    from functory import emit
    emit("ball.THERE", {}, subject="ball")
"""

DEEPER = """
def deeper(event: dict) -> None:
    from functory import emit
    n = event["data"]["n"]
    emit("deeper", {"n": n + 1}, subject=f"s{n}")
"""

AGAIN = """
def again(event: dict) -> None:
    from functory import emit
    emit("again", {}, subject="itself")
"""

BURST = """
def burst(event: dict) -> None:
    from functory import emit
    for n in range(4):
        emit("burst", {"n": n}, subject=event["id"] + str(n))
"""

GROW = """
def grow(path: str) -> None:
    with open(path, "a") as file:
        file.write("x")
"""

NOTIFY = """
def notify(event: dict) -> None:
    import json, urllib.request
    for n in range(POSTS):
        body = {"specversion": "1.0", "id": event["id"] + str(n), "source": "/outside", "type": "hook.called"}
        body |= {"subject": "ball", "data": {}}
        headers = {"content-type": "application/cloudevents+json"}
        request = urllib.request.Request(event["data"]["url"], json.dumps(body).encode(), headers)
        urllib.request.urlopen(request, timeout=30)
"""

# Loops through the outside: requests of each turn, and turns a minute.
POSTS, RATE = 5, 2

BUDGET = 30


def prepare(chaos: Chaos) -> None:
    """Prepare orders without a schedule, so that any later event comes by itself."""
    ORDERS.prepare(chaos)
    ORDERS.halt(chaos)


def looping(give: Callable[[Chaos], None]) -> Workload:
    """Give orders, and in the middle of them call ``give``, which starts the loop."""

    def mixed(chaos: Chaos, number: int) -> None:
        if number == 2:
            give(chaos)
        ORDERS.give(chaos, number)

    return Workload(prepare, mixed, matches=ORDERS.matches)


def emitted(type_: str, **data: object) -> Callable[[Chaos], None]:
    """Write the one event that starts the loop; recovery is measured from it."""

    def give(chaos: Chaos) -> None:
        chaos.mark()
        chaos.client.events.emit(type_, dict(data), subject="ball", dedup_key=f"begin-{type_}")

    return give


def all_of(*gives: Callable[[Chaos], None]) -> Callable[[Chaos], None]:
    """Write several events that start loops."""

    def give(chaos: Chaos) -> None:
        for one in gives:
            one(chaos)

    return give


def rest(chaos: Chaos) -> None:
    """Wait until no work is open, then check that no event comes by itself."""
    chaos.wait(chaos.given.complete.is_set, "the giving of the work")
    chaos.wait(lambda: workload.settled(chaos), "rest")
    before = chaos.client.lineage.totals()
    time.sleep(IDLE_SECONDS)
    chaos.notes["came by itself"] = {"before": before, "after": chaos.client.lineage.totals()}


def seen(chaos: Chaos) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """The number of executions of each function, and the number of suppressed matches by trigger and reason."""
    with chaos.database.read() as tx:
        ran = tx.pairs(sa.select(execution.c.function, sa.func.count()).group_by(execution.c.function))
        statement = (
            sa.select(trigger.c.name, firing.c.reason, sa.func.count().label("count"))
            .join(trigger, trigger.c.id == firing.c.trigger_id)
            .where(firing.c.decision == "suppressed")
            .group_by(trigger.c.name, firing.c.reason)
        )
        stopped = {(row["name"], row["reason"]): row["count"] for row in tx.rows(statement)}
    return Counter(ran), Counter(stopped)


def exactly(
    ran: Mapping[str, int], stopped: Mapping[tuple[str, str], int]
) -> Callable[[Chaos, Counts], list[str]]:
    """Check the exact number of executions and of suppressed matches, and that no event came afterwards."""

    def expect(chaos: Chaos, _counts: Counts) -> list[str]:
        have_run, were_stopped = seen(chaos)
        complaints = [
            f"{name} ran {have_run[name]} times, not {times}"
            for name, times in ran.items()
            if have_run[name] != times
        ]
        if were_stopped != Counter(stopped):
            complaints.append(f"stopped were {dict(were_stopped)}, not {dict(stopped)}")
        return complaints + quiet(chaos)

    return expect


def quiet(chaos: Chaos) -> list[str]:
    """Check that no event came by itself."""
    reported = chaos.notes["came by itself"]
    return [f"it was not idle: {reported}"] if reported["before"] != reported["after"] else []


def two(chaos: Chaos) -> None:
    """Run two functions that start each other by events; they may do so three times."""
    for here, there in (("ping", "pong"), ("pong", "ping")):
        workload.save(chaos, BALL.replace("THERE", there).replace("HERE", here))
        chaos.client.register_trigger(
            here, on={"type": [f"ball.{here}"]}, function=here, guards={"acknowledge_cycle": 3}
        )


def itself(chaos: Chaos) -> None:
    """Run functions that their own events trigger: one may do so down to the depth limit, the other may not."""
    workload.save(chaos, DEEPER)
    workload.save(chaos, AGAIN)
    chaos.client.register_trigger(
        "deeper",
        on={"type": ["deeper"]},
        function="deeper",
        guards={"allow_self": True, "acknowledge_cycle": 64, "max_depth": 16},
    )
    chaos.client.register_trigger("again", on={"type": ["again"]}, function="again")


def bomb(chaos: Chaos) -> None:
    """Run a fork bomb: every execution causes four more."""
    workload.save(chaos, BURST)
    chaos.client.register_trigger(
        "burst",
        on={"type": ["burst"]},
        function="burst",
        guards={"allow_self": True, "acknowledge_cycle": 64, "max_depth": 16, "budget": BUDGET},
    )


def outside(chaos: Chaos) -> None:
    """Run a function that changes the file that triggers it, and a function that sends the event that triggers it."""
    inbox = chaos.folder / "inbox"
    inbox.mkdir()
    inbox.chmod(0o777)
    chaos.client.functions.save(GROW.lstrip(), author="chaos", files={"write": [str(inbox)]})
    chaos.client.sources.save("file", "inbox", {"path": str(inbox), "settle": 0.1}, author="chaos")
    chaos.client.register_trigger(
        "grow", on={"type": [{"prefix": "file."}]}, function="grow", input={"path": "{{ event.data.path }}"}
    )
    port = next(p.settings["port"] for p in chaos.deployment.places if p.role == "server")
    url = f"http://127.0.0.1:{port}/events"
    source = NOTIFY.replace("POSTS", str(POSTS)).replace('event["data"]["url"]', repr(url))
    chaos.client.functions.save(source.lstrip(), author="chaos", hosts=[f"127.0.0.1:{port}"])
    chaos.client.register_trigger(
        "notify", on={"type": ["hook.called"]}, function="notify", guards={"rate": RATE}
    )


def drop(chaos: Chaos) -> None:
    """Write one file and one event."""
    file = chaos.folder / "part"
    file.write_text("begin")
    file.chmod(0o666)
    file.rename(chaos.folder / "inbox" / "loop.txt")
    emitted("hook.called")(chaos)


def both_stopped(chaos: Chaos) -> None:
    """Wait until both loops have met their guard: before that, work outside the database may look like idleness."""
    chaos.wait(lambda: seen(chaos)[1]["grow", "own_event"], "the guard of the file's loop")
    chaos.wait(lambda: seen(chaos)[1]["notify", "breaker_open"], "the breaker")
    rest(chaos)


def slow(chaos: Chaos, _counts: Counts) -> list[str]:
    """Check that the file names its writer as the cause, and that the rate limit and its breaker stop events without
    lineage."""
    ran, stopped = seen(chaos)
    complaints = quiet(chaos)
    with chaos.database.read() as tx:
        span = sa.func.max(firing.c.time), sa.func.min(firing.c.time)
        decided = sa.select(*span).join(trigger, trigger.c.id == firing.c.trigger_id)
        last, first = tx.connection.execute(decided.where(trigger.c.name == "notify")).one()
    # A minute has this number of turns, and a slow machine may take longer than a part of one to decide about all.
    most = RATE + int((last - first).total_seconds() * RATE / 60)
    if ran["grow"] != 1 or not RATE <= ran["notify"] <= most:
        complaints.append(
            f"grow ran {ran['grow']} times, not 1, and notify {ran['notify']}, not {RATE} to {most}"
        )
    refused = stopped["notify", "rate"] + stopped["notify", "breaker_open"]
    if refused != 1 + ran["notify"] * (POSTS - 1):
        complaints.append(f"{refused} were refused of {1 + ran['notify'] * POSTS}: {dict(stopped)}")
    with chaos.database.read() as tx:
        if not tx.scalar(sa.select(sa.func.count()).where(breaker.c.open_until.is_not(None))):
            complaints.append("the breaker is not open")
    return complaints


def poison_rules(chaos: Chaos) -> None:
    """Save triggers on the orders' events with bad conditions: two raise, and one would search for ever."""
    workload.save(chaos, "def never(order: int) -> int:\n    return order\n")
    rules = {
        "errs": "data.order / 0 == 1",
        "lacks": "data.customer.name == 'Ada'",
        "hangs": f"'{'a' * 200}!'.matches('^(a+)+$')",
    }
    for name, when in rules.items():
        chaos.client.register_trigger(
            name,
            on={"type": ["order.placed"]},
            function="never",
            when=when,
            input={"order": "{{ event.data.order }}"},
        )


def reported(chaos: Chaos, _counts: Counts) -> list[str]:
    """Check that each failed condition is a recorded decision with its reason; a false condition records none."""
    ran, stopped = seen(chaos)
    events = len(chaos.given.events)
    wanted = Counter({("errs", "condition_error"): events, ("lacks", "condition_error"): events})
    complaints = quiet(chaos)
    if ran["never"]:
        complaints.append(f"{ran['never']} executions of conditions that never held")
    if stopped != wanted:
        complaints.append(f"stopped were {dict(stopped)}, not {dict(wanted)}")
    return complaints


def poisoned(chaos: Chaos) -> None:
    """Run routers that fail at one event, as with a defect in the router."""
    chaos.hook("router", "router-poison", 1.0)
    chaos.armed.touch()
    chaos.client.register_trigger(
        "cure", on={"type": ["poison"]}, function="ship", input={"order": "{{ event.data.order }}"}
    )


def poison(chaos: Chaos) -> None:
    """Write the poison event. It is quarantined after its fifth failure, other events continue, and an operator
    retries it."""

    def quarantined() -> list[dict[str, object]]:
        return chaos.client.events.list(type_="poison", state="quarantined")

    (found,) = chaos.wait(quarantined, "the quarantine")
    chaos.notes["routed meanwhile"] = len(chaos.client.executions.list(function="take", limit=100))
    chaos.armed.unlink()
    chaos.client.events.release(str(found["id"]))
    rest(chaos)


def cured(chaos: Chaos, _counts: Counts) -> list[str]:
    """Check that the event was routed in the end, and that other events did not wait for it."""
    complaints = quiet(chaos)
    if not chaos.notes["routed meanwhile"]:
        complaints.append("nothing was routed while one event failed")
    with chaos.database.read() as tx:
        fired = tx.scalar(
            sa.select(sa.func.count())
            .select_from(firing)
            .join(trigger, trigger.c.id == firing.c.trigger_id)
            .where(trigger.c.name == "cure", firing.c.decision == "fired")
        )
    return complaints if fired == 1 else [*complaints, f"the released event fired {fired} times"]


add(
    Fault(
        "loop-2",
        rest,
        prepare=two,
        workload=looping(emitted("ball.ping")),
        expect=exactly({"ping": 3, "pong": 3}, {("ping", "cycle"): 1}),
    ),
    Fault(
        "loop-self",
        rest,
        prepare=itself,
        workload=looping(all_of(emitted("deeper", n=0), emitted("again"))),
        expect=exactly({"deeper": 16, "again": 1}, {("deeper", "depth"): 1, ("again", "own_event"): 1}),
    ),
    Fault(
        "fan-out-bomb",
        rest,
        prepare=bomb,
        workload=looping(emitted("burst")),
        # Each that ran caused four; with the first event that is what there was to decide about.
        expect=exactly({"burst": BUDGET}, {("burst", "budget"): 4 * BUDGET + 1 - BUDGET}),
    ),
    Fault(
        "slow-loop",
        both_stopped,
        prepare=outside,
        workload=looping(drop),
        layout={**LAYOUT, "server": 1, "watcher": 2},
        environment={"FUNCTORY_PRIVATE_NETWORKS": '["127.0.0.0/8"]'},
        expect=slow,
    ),
    Fault(
        "poison-rule",
        rest,
        prepare=poison_rules,
        workload=Workload(prepare, ORDERS.give, ORDERS.matches),
        expect=reported,
    ),
    Fault(
        "poison-event", poison, prepare=poisoned, workload=looping(emitted("poison", order=-1)), expect=cured
    ),
)
