"""Texts that attack a page, in every field that a stranger or a user fills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from pydantic import SecretStr

from functory.client.functory import Functory
from functory.engine.executions.batches import BatchRequest
from functory.engine.executions.listing import ExecutionFilter
from tests.support.patience import patient

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Sets window.attacked if it is ever run, and asks another host if it is ever drawn as HTML.
SCRIPT = "<script>window.attacked=1;alert(1)</script>"
IMAGE = "<img src=http://attacker.invalid/x onerror=\"window.attacked=1;alert('2')\">"
PROBES = (
    SCRIPT,
    IMAGE,
    "'\"--></style></title></textarea><svg onload=alert(3)>",
    "javascript:alert(4)//http://attacker.invalid/",
    "{{7*7}}${7*7}#{7*7}<%= 7*7 %>",
    "\u202etxt.exe\u2066\u200bhidden",
    "\x1b]8;;http://attacker.invalid\x07link\x1b]8;;\x07\x1b[31mred",
)
ALL = " ".join(PROBES)
PASSWORD = "a password that is long"
DATA: dict[str, Any] = {probe: [probe, {"html": probe}] for probe in PROBES}
DATA["__proto__"] = {"polluted": True}

FUNCTION = '''
def hostile(text: str = "") -> dict:
    """%s"""
    print(text)
    print("\\x1b[31m" + text + "\\x1b[0m")
    return {"text": text, text: [text]}
'''
FAILING = """
def hostile_failure(text: str = "") -> None:
    raise ValueError(text)  # <script>window.attacked=1</script>
"""


def attack(functory: Functory, folder: Path) -> dict[str, str]:
    """Fill an engine with them. Returns ids by what they are."""
    # A docstring has no quotes of its own and no NUL.
    about = (SCRIPT + "'\"--></style>\u202e").replace('"', "'").replace("\\", "")
    functions = functory.functions
    functions.save((FUNCTION % about).lstrip(), author=SCRIPT, hosts=["a.example.com"])
    functions.save(FAILING.lstrip(), author=ALL[:200])
    functory.register_trigger(
        "hostile-trigger",
        on={"type": [{"prefix": "hostile."}]},
        function="hostile",
        input={"text": "{{ event.subject }}"},
    )
    functory.register_trigger(
        "hostile-paused",
        on={"type": [{"prefix": "hostile."}], "data": {SCRIPT: [SCRIPT]}},
        function="hostile",
        input={"text": SCRIPT},
    )
    functory.triggers.pause("hostile-paused", note=ALL, author=SCRIPT)
    functory.sources.save(
        "file", "hostile-watch", {"path": str(folder / SCRIPT.replace("/", "")), "must_exist": False}
    )
    functory.sources.pause("file", "hostile-watch", note=ALL, author=SCRIPT)
    functory.schedules.save("hostile-hours", every="1h", function="hostile", input={"text": SCRIPT})
    functory.schedules.by(SCRIPT).pause("hostile-hours", note=ALL)
    functory.sources.save(
        "webhook",
        "hostile-hook",
        {"auth": {"type": "none", "allow_unauthenticated": True}, "headers": ["x-evil"]},
    )
    functory.grant_approvals.allow("hostile", 1, "host", "a.example.com", reason=ALL, author=SCRIPT)
    functory.users.create("hostile", SecretStr(PASSWORD))
    event = functory.emit("hostile.event", DATA, subject=ALL[:500])
    for probe in PROBES:
        functory.emit("hostile.event", {"text": probe}, subject=probe)
    functory.settle()
    ok = functory.executions.start("hostile", {"text": ALL})
    failed = functory.executions.start("hostile_failure", {"text": ALL})
    functory.settle()
    batch = functory.batches.create(
        BatchRequest("retry", filter=ExecutionFilter(functions=["hostile_failure"], text=SCRIPT), reason=ALL),
        author=SCRIPT,
    )
    functory.settle()
    functory.switches.throw("triggers", note=ALL, author=SCRIPT)
    return {"event": event, "ok": ok["id"], "failed": failed["id"], "batch": batch["id"]}


def attack_from_outside(url: str) -> None:
    """Send requests of strangers to the server: a delivery that is taken, one that is refused, and a login with a
    password.
    """
    agent = {"user-agent": SCRIPT + IMAGE, "x-evil": SCRIPT, "origin": url}
    with httpx.Client(base_url=url, headers=agent, timeout=patient(30)) as client:
        taken = client.post("/webhooks/hostile-hook", json=DATA)
        assert taken.status_code == 202, taken.text
        refused = client.post(
            "/webhooks/hostile-hook", content=ALL.encode(), headers={"content-type": SCRIPT}
        )
        assert refused.status_code >= 400, refused.text
        login = client.post("/api/v1/login", json={"name": "hostile", "password": PASSWORD})
        assert login.status_code < 300, login.text


def is_unharmed(page: Page) -> bool:
    """True when none of them ran or became an element."""
    return bool(
        page.evaluate(
            "window.attacked === undefined && ({}).polluted === undefined"
            " && !document.querySelector('img, iframe, object, embed, main script, main style, [onerror], [onload]')"
            " && ![...document.querySelectorAll('a[href]')].some((a) => a.protocol === 'javascript:')"
        )
    )
