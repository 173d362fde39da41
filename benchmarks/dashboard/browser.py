"""The pages in a real Chromium: how long until something is seen, how smooth it stays, what it loads."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.dashboard import bundle
from benchmarks.dashboard.large import Large
from benchmarks.dashboard.readings import Reading
from functory.dashboard.serving import STATIC
from tests.services.installation import Found, find
from tests.support.dashboard import DESKTOP, launch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

TIMES = 5
KEYS = 40
SCROLLED_ROWS = 1500
# After what is seen first a page may read more.
SETTLE_MILLISECONDS = 700
TAIL_RATE = 200
TAIL_SECONDS = 15.0
BURST = 5000
ROW = ".table-row"

# Runs before the scripts of each page. A thing is seen one frame after it is in the document.
SCRIPT = """
window.seen = (test, arg) => new Promise((done, failed) => {
  const began = performance.now();
  const look = () => {
    if (test(arg)) requestAnimationFrame(() => done(performance.now()));
    else if (performance.now() - began > 60000) failed(new Error(`not seen: ${test}`));
    else requestAnimationFrame(look);
  };
  look();
});
window.painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
window.rowSeen = () => seen(() => document.querySelector(".table-row"));
window.pressed = (key) =>
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
window.frames = (seconds) => new Promise((done) => {
  const gaps = [], began = performance.now();
  let last = began;
  const next = (at) => {
    gaps.push(at - last);
    last = at;
    if (at - began < seconds * 1000) requestAnimationFrame(next);
    else done(gaps.slice(1));
  };
  requestAnimationFrame(next);
});
"""


def measure(
    url: str, client: httpx.Client, once: Large, name: str, password: str, *, tail_minutes: float = 2
) -> Iterator[Reading]:
    """Look at the pages of the server at ``url`` as this user."""
    from playwright.sync_api import sync_playwright

    yield from bundle.sizes(STATIC)
    found = find("chromium")
    if not isinstance(found, Found):
        raise SystemExit(found.why)
    with sync_playwright() as playwright:
        browser = launch(playwright, found.programs["chromium"])
        with contextlib.closing(browser):
            logged_in = _log_in(browser, url, name, password)
            yield from _loads(browser, url, logged_in)
            context = _context(browser, logged_in)
            page = context.new_page()
            yield from _list(page, url)
            yield from _deep_links(page, url, client)
            yield from _requests(page, url, client)
            yield from _large(page, url, once)
            yield from _live(page, url, client, tail_minutes)


def _log_in(browser: Browser, url: str, name: str, password: str) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("input[name=name]", name)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_selector("main#page h1:not(form h1)")
    state = context.storage_state()
    context.close()
    return state


def _context(browser: Browser, logged_in: Any) -> BrowserContext:
    context = browser.new_context(viewport=DESKTOP, storage_state=logged_in)  # type: ignore[arg-type]
    context.set_default_timeout(60_000)
    context.add_init_script(SCRIPT)
    return context


def _loads(browser: Browser, url: str, logged_in: Any) -> Iterator[Reading]:
    cold, warm = [], []
    for _ in range(TIMES):
        context = _context(browser, logged_in)
        page = context.new_page()
        for times in (cold, warm):
            page.goto(f"{url}/executions", wait_until="commit")
            times.append(page.evaluate("rowSeen()"))
        context.close()
    yield Reading("first row, cold cache", statistics.median(cold), "ms", 600)
    yield Reading("first row, warm cache", statistics.median(warm), "ms", 300)


def _list(page: Page, url: str) -> Iterator[Reading]:
    page.goto(f"{url}/executions", wait_until="commit")
    page.evaluate("rowSeen()")
    keys = page.evaluate(
        """async (times) => {
          const taken = [];
          for (let at = 0; at < times; at++) {
            const began = performance.now();
            pressed("j");
            taken.push(await painted() - began);
          }
          return taken;
        }""",
        KEYS,
    )
    yield Reading("key j → painted, p95", statistics.quantiles(keys, n=20)[18], "ms", 50)
    filters, opens, backs = [], [], []
    for _ in range(TIMES):
        page.goto(f"{url}/executions", wait_until="commit")
        page.evaluate("rowSeen()")
        filters.append(
            page.evaluate(
                """async () => {
                  const choice = document.querySelector("select[aria-label=state]");
                  const began = performance.now();
                  choice.value = "failed";
                  choice.dispatchEvent(new Event("change", { bubbles: true }));
                  const agree = () => {
                    const states = [...document.querySelectorAll(".table-row .c-state")];
                    return states.length > 0 && states.every((one) => one.textContent.includes("failed"));
                  };
                  return await seen(agree) - began;
                }"""
            )
        )
        opens.append(
            page.evaluate(
                """async () => {
                  const began = performance.now();
                  pressed("Enter");
                  return await seen(() => document.querySelector(".trace [role=treeitem]")) - began;
                }"""
            )
        )
        backs.append(
            page.evaluate(
                """async () => {
                  const began = performance.now();
                  history.back();
                  return await seen(() => document.querySelector(".table-row")) - began;
                }"""
            )
        )
    yield Reading("filter by state → all rows agree", statistics.median(filters), "ms", 120)
    yield Reading("Enter on a row → trace", statistics.median(opens), "ms", 150)
    yield Reading("back → the list as it was", statistics.median(backs), "ms", 60)
    page.goto(f"{url}/executions", wait_until="commit")
    page.evaluate("rowSeen()")
    scrolled = page.evaluate(
        """async (rows) => {
          const body = document.querySelector(".table-body");
          const began = performance.now();
          const there = () => {
            body.scrollTop += 1600;
            const last = [...document.querySelectorAll(".table-row")].at(-1);
            return Number(last?.getAttribute("aria-rowindex")) >= rows;
          };
          return await seen(there) - began;
        }""",
        SCROLLED_ROWS,
    )
    yield Reading(f"scroll through {SCROLLED_ROWS:,} rows", scrolled, "ms")


def _deep_links(page: Page, url: str, client: httpx.Client) -> Iterator[Reading]:
    times = []
    for row in _get(client, "/executions", limit=TIMES)["items"]:
        page.goto(f"{url}/executions/{row['id']}", wait_until="commit")
        times.append(page.evaluate("seen(() => document.querySelector('.trace [role=treeitem]'))"))
    yield Reading("deep link to an execution, warm", statistics.median(times), "ms", 300)


def _requests(page: Page, url: str, client: httpx.Client) -> Iterator[Reading]:
    row = _get(client, "/executions", limit=1, trigger="on-order-received")["items"][0]
    pages = {
        "overview": "/",
        "executions": "/executions",
        "execution": f"/executions/{row['id']}",
        "tree": f"/trees/{row['root_id']}",
        "events": "/events",
        "event": f"/events/{row['event_id']}",
        "functions": "/functions",
        "function": f"/functions/{row['function']}",
        "triggers": "/triggers",
        "trigger": "/triggers/on-order-received",
        "map": "/map",
    }
    for name, path in pages.items():
        asked: list[Request] = []

        def finished(request: Request, asked: list[Request] = asked) -> None:
            if "/api/v1/" in request.url and "/stream" not in request.url and "/me" not in request.url:
                asked.append(request)

        page.on("requestfinished", finished)
        page.goto(f"{url}{path}", wait_until="commit")
        page.wait_for_selector("h1")
        page.wait_for_selector(".skeleton", state="detached")
        page.wait_for_timeout(SETTLE_MILLISECONDS)
        page.remove_listener("requestfinished", finished)
        size = sum(request.sizes()["responseBodySize"] for request in asked) / 1000
        yield Reading(f"requests of {name}", len(asked), "", 4)
        yield Reading(f"JSON of {name}", size, "kB", 60)


def _large(page: Page, url: str, once: Large) -> Iterator[Reading]:
    """What is large: from the opening of its page until its first part is seen."""
    tree, event = f"/trees/{once.tree}", f"/events/{once.event}"
    pages = {
        "tree of 5,000: first outline": (tree, ".outline [role=treeitem]", 300),
        "tree of 5,000: graph": (f"{tree}?view=graph", ".tree-graph svg", 500),
        "map of 400 boxes": ("/map", "[data-box]", None),
        "event of 1 MB": (event, "main .json .notice", None),
        "execution of 1 MB": (f"/executions/{once.execution}?tab=io", "main .json .notice", None),
    }
    for name, (path, part, budget) in pages.items():
        times = []
        for _ in range(TIMES):
            page.goto(f"{url}{path}", wait_until="commit")
            times.append(page.evaluate("(part) => seen(() => document.querySelector(part))", part))
        yield Reading(f"{name}, warm", statistics.median(times), "ms", budget)
        yield Reading(f"{name}: elements", page.locator("main *").count(), "")


def _live(page: Page, url: str, client: httpx.Client, minutes: float) -> Iterator[Reading]:
    page.goto(f"{url}/events", wait_until="commit")
    page.evaluate("rowSeen()")
    page.locator(".live-live").wait_for()
    with _emitting(client):
        page.wait_for_timeout(1000)
        gaps = page.evaluate(f"frames({TAIL_SECONDS})")
    yield Reading(
        f"tail at {TAIL_RATE}/s: frames a second", 1000 / statistics.mean(gaps), "", 58, at_least=True
    )
    yield Reading(f"tail at {TAIL_RATE}/s: worst frame", max(gaps), "ms", 34)
    before = _heap(page)
    with _emitting(client):
        page.wait_for_timeout(60_000 * minutes)
    page.wait_for_timeout(1000)
    yield Reading(f"browser heap after {minutes:g} min of tail", _heap(page) - before, "MB more", 20)
    burst = threading.Thread(target=_burst, args=(client,))
    burst.start()
    gaps = page.evaluate("frames(6)")
    burst.join()
    yield Reading(f"burst of {BURST:,} events: worst frame", max(gaps), "ms", 50)
    note = page.locator(".table-note")
    yield Reading("burst: the line of what was skipped", note.count(), "shown", 1, at_least=True)


def _heap(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / 1e6


def _emit(client: httpx.Client, count: int) -> None:
    events = [{"type": "bench.ticked", "data": {"number": number}} for number in range(count)]
    client.post("/events", json={"events": events}).raise_for_status()


def _burst(client: httpx.Client) -> None:
    for _ in range(BURST // 1000):
        _emit(client, 1000)


@contextlib.contextmanager
def _emitting(client: httpx.Client) -> Iterator[None]:
    """Emit events at the rate of the tail."""
    stop = threading.Event()

    def emit() -> None:
        began, sent = time.monotonic(), 0
        while not stop.wait(0.1):
            due = int((time.monotonic() - began) * TAIL_RATE) - sent
            if due > 0:
                _emit(client, min(due, 1000))
                sent += min(due, 1000)

    thread = threading.Thread(target=emit)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _get(client: httpx.Client, path: str, **query: Any) -> Any:
    return client.get(path, params=query).raise_for_status().json()
