"""Fills `.functory` with the code of schema 0006, and ends while an execution runs and one waits for its slot.

Run in an empty folder, after `functory webhook add github --auth github --secret HOOK`. The name of the machine was
replaced in the ids of workers, and the file vacuumed.
"""

import os
import time

from engine.intake import Arrival
from engine.sources import Sources
from engine.webhooks import Rate, Webhooks
from functory import ExecutionFailed, Functory

engine = Functory(author="ada").start()
engine.secrets.set("TOKEN", "open sesame")
engine.secrets.set("HOOK", "hook key")

save = engine.functions.save
save("def add(a: int, b: int = 1):\n    return a + b\n", author="ada")
save("def add(a: int, b: int = 2):\n    print('adding')\n    return a + b\n", author="ada")
save(
    "from functory import secret\ndef token_length():\n    return len(secret('TOKEN'))\n",
    secrets=["TOKEN"],
    author="ada",
)
save(
    "from functory import state\ndef count():\n    n = state.get('n', 0) + 1\n    state.set('n', n)\n    return n\n",
    author="ada",
)
save("def total(a: int):\n    return add(a) + add(a, b=10)\n", dependencies=["add"], author="ada")
save("def broken():\n    raise ValueError('no')\n", author="ada")
save(
    "from functory import execution\ndef slow(n: int):\n    import time\n"
    "    time.sleep(60 if n == 1 and execution.attempt == 1 else 0)\n    return n\n",
    limits={"timeout": 90},
    author="ada",
)
save("import socket\ndef fetch():\n    return socket.gethostname()\n", author="ada")
engine.widenings.allow("fetch", None, "host", "example.com:443", reason="for the test", author="ada")

ORDER = {"on": {"type": ["order.created"]}, "input": {"a": "{{ event.data.n }}"}}
engine.register_trigger(
    "on-order",
    function="add",
    flow={"idempotency": {"key": "data.n", "window": "7d"}, "rate_limit": {"limit": 5, "period": "1h"}},
    **ORDER,
)
engine.register_trigger(
    "on-quiet", function="total", flow={"debounce": {"period": "1h", "key": "data.customer"}}, **ORDER
)
engine.register_trigger(
    "one-at-a-time",
    on={"type": ["job"]},
    function="slow",
    input={"n": "{{ event.data.n }}"},
    flow={
        "concurrency": {"limit": 1, "key": "data.customer"},
        "throttle": {"limit": 100, "period": "1s"},
    },
)

print(engine.call("total", 1), engine.call("token_length"), engine.call("count"), engine.call("count"))
try:
    engine.call("broken")
except ExecutionFailed as error:
    print(error)
for n, customer in ((1, "c1"), (1, "c1"), (2, "c2")):
    engine.emit("order.created", {"n": n, "customer": customer})

engine.schedules.save("tick", every="1s", function="count")
time.sleep(3.2)
Sources(engine.database).pause("schedule", "tick")

hooks = Webhooks(engine.database)
(row,) = hooks.all()
for key in ("d1", "d2", "d1"):
    hooks.take(row, Arrival("github.push", {"ref": "main"}, key=key), Rate(10, 60.0, 5))

time.sleep(1)
for n in (1, 2):
    engine.emit("job", {"n": n, "customer": "c"})
while {row["state"] for row in engine.executions.list(function="slow")} != {"running", "queued"}:
    time.sleep(0.1)
os._exit(0)
