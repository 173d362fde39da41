"""Keys, lists and what stays alive: the palette, filters, selections, batches, saved views, the way back, live rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from functory.engine.database import id_pages
from functory.engine.database.short_ids import short
from tests.support import page_checks
from tests.support.dashboard import Deployment, Screen, dashboard_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Route

FAILED = 200
SUCCEEDED = 30
BREAKS = "def breaks(number: int) -> int:\n    raise ValueError(f'order {number} has no lines')\n"
WORKS = "def works(number: int) -> int:\n    return number\n"
PLANS = """
import functory

def plans(number: int) -> int:
    functory.emit("plan.made", {"number": number})
    return sum(functory.call("works", number=one) for one in range(number))
"""
ACTIVE_ROW = ".table-row.active"


@dataclass
class World:
    """A server with more executions than a screen has rows, and ids of some of them."""

    deployment: Deployment
    works: str
    tree: str

    def start(self, *, delay: float = 0) -> str:
        """Start one more execution."""
        return self.deployment.functory.executions.start("works", {"number": 1}, delay=delay)["id"]


@pytest.fixture(scope="module")
def world(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with dashboard_server(tmp_path_factory.mktemp("lists")) as deployment:
        functory = deployment.functory
        functory.functions.save(BREAKS, author="ada")
        functory.functions.save(WORKS, author="ada")
        functory.register_trigger(
            "on-order", on={"type": ["order.received"]}, function="works", input={"number": 1}
        )
        tree = functory.emit("order.received", {"number": 1}, subject="order-1")
        for number in range(FAILED):
            functory.executions.start("breaks", {"number": number})
        works = [functory.executions.start("works", {"number": number})["id"] for number in range(SUCCEEDED)]
        functory.settle(120)
        yield World(deployment, works[-1], tree)


@pytest.fixture
def context_screen(world: World, browser: Browser) -> Iterator[Callable[..., Screen]]:
    """Makes a page of the owner, with a script that runs before those of the page."""
    made: list[Screen] = []

    def make(script: str = "") -> Screen:
        context = world.deployment.context(browser)
        if script:
            context.add_init_script(script)
        made.append(world.deployment.log_in(context))
        return made[-1]

    yield make
    for screen in made:
        screen.page.context.close()
        screen.silent()


@pytest.fixture
def screen(context_screen: Callable[..., Screen]) -> Screen:
    return context_screen()


def _list(screen: Screen, path: str = "/executions") -> Screen:
    screen.go(path)
    screen.page.wait_for_selector(ACTIVE_ROW)
    return screen


def _at(screen: Screen, end: str) -> None:
    screen.page.wait_for_url(f"**{end}")


def _row(screen: Screen) -> str:
    """The link of the active row."""
    return screen.page.locator(f"{ACTIVE_ROW} a").first.get_attribute("href") or ""


def _dialog(screen: Screen) -> Locator:
    found = screen.page.locator("dialog[open]")
    found.wait_for()
    return found


def test_the_list_of_keys_shows_those_of_the_page_and_closes(screen: Screen) -> None:
    _list(screen).press("?")
    text = _dialog(screen).inner_text()
    assert "Next row" in text
    assert "Retry what is selected" not in text
    screen.press("Escape")
    screen.page.wait_for_selector("dialog", state="detached")
    _at(screen, "/executions")


@pytest.mark.parametrize("typed", ["function", "short id", "whole id"])
def test_the_palette_finds_by_the_keyboard(typed: str, world: World, screen: Screen) -> None:
    text, end = {
        "function": ("brea", "/functions/breaks"),
        "short id": (short(world.works), f"/executions/{world.works}"),
        "whole id": (world.works, f"/executions/{world.works}"),
    }[typed]
    screen.go("/").press("Control+k")
    _dialog(screen)
    screen.page.keyboard.type(text)
    wanted = "breaks" if typed == "function" else "execution"
    active = screen.page.locator(".palette-item.active", has_text=wanted)
    active.wait_for()
    if typed != "function":
        # Executions are called like their function: the short id tells them apart.
        expect(active.locator(".mono")).to_have_text(short(world.works))
    screen.press("Enter")
    _at(screen, end)


def test_the_dot_offers_the_actions_of_the_page_and_nothing_else(screen: Screen) -> None:
    _list(screen).press(".")
    dialog = _dialog(screen)
    names = dialog.locator(".palette-text").all_inner_texts()
    assert "Failed only" in names
    assert not {"Next row", "Functions", "Actions", "Palette"} & set(names)
    screen.page.keyboard.type("failed on")
    screen.press("Enter")
    _at(screen, "/executions?state=failed&state=timed_out&state=dead")


def test_a_filter_is_written_and_removed_without_the_mouse(screen: Screen) -> None:
    _list(screen).press("/")
    screen.page.keyboard.type("breaks")
    screen.press("Enter")
    _at(screen, "/executions?function=breaks")
    screen.press("Backspace")
    _at(screen, "/executions")
    screen.press("Escape", "f")
    screen.page.locator(".chip", has_text="state failed").wait_for()
    screen.press("F")
    _at(screen, "/executions")


def test_a_filter_that_only_old_rows_fit_says_that_there_are_older_ones(
    world: World, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one execution of a trigger is the oldest: five pages do not reach it, and the next ones do.
    number = len(world.deployment.functory.executions.list(limit=1000))
    monkeypatch.setattr(id_pages.find, "__kwdefaults__", {"window": number // 8})
    page = screen.go("/executions?cause=trigger").page
    further = page.get_by_role("button", name="Look further")
    further.wait_for()
    assert "Nothing matches" not in screen.text()
    further.click()
    page.wait_for_selector(ACTIVE_ROW)
    expect(page.locator(".table-row")).to_have_count(1)
    expect(page.locator(".table-note")).to_have_count(0)


def _two_a_page(route: Route) -> None:
    route.continue_(url=route.request.url.replace("limit=100", "limit=2"))


def test_versions_beyond_the_first_page_are_shown_and_compared(world: World, screen: Screen) -> None:
    functory = world.deployment.functory
    for number in range(1, 6):
        functory.functions.save(f"def often() -> int:\n    return {number}\n", author="ada")
        functory.save_trigger("oftener", on={"type": [f"often.{number}"]}, function="often", input={})
    page = screen.page
    page.route("**/versions?limit=100*", _two_a_page)
    screen.go("/functions/often?tab=versions").ready()
    rows = page.get_by_role("grid", name="Versions").locator(".table-row")
    more = page.get_by_role("button", name="Show more")
    for shown in (2, 4):
        expect(rows).to_have_count(shown)
        more.click()
    expect(rows).to_have_count(5)
    expect(more).to_have_count(0)
    # Versions that are compared are read as far back as they are.
    screen.go("/triggers/oftener?tab=versions&a=2").page.get_by_role("heading", name="v1 → v2").wait_for()


def test_what_is_found_by_the_beginning_of_an_id_is_a_link_with_its_short_id(
    world: World, screen: Screen
) -> None:
    page = screen.go(f"/find/{short(world.works)[:4]}").ready().page
    link = page.locator("main .lines .mono").first
    href = page.locator("main .lines a:has(.mono)").first.get_attribute("href") or ""
    expect(link).to_have_text(short(href.rsplit("/", 1)[1]))
    page.locator("main .lines .copy").first.wait_for()


def test_the_page_of_an_event_within_a_tree_follows_the_tree(
    world: World, context_screen: Callable[..., Screen]
) -> None:
    events = world.deployment.functory.events.list(root_id=world.tree)
    below = next(row for row in events if row["id"] != world.tree)
    screen = context_screen("delete window.SharedWorker")
    wanted = f"tree%3A{world.tree}"
    with screen.page.expect_request(lambda one: "/stream" in one.url and wanted in one.url):
        screen.go(f"/events/{below['id']}")


def test_rows_are_walked_opened_and_left_where_one_was(screen: Screen) -> None:
    _list(screen).press("j", "j", "k", "j")
    row = _row(screen)
    screen.press("Enter")
    _at(screen, row)
    screen.press("]")
    screen.page.wait_for_function("before => location.pathname !== before", arg=row)
    screen.press("[")
    _at(screen, row)
    screen.press("Escape")
    _at(screen, "/executions")
    screen.page.wait_for_selector(ACTIVE_ROW)
    assert _row(screen) == row


def test_the_part_beside_follows_the_rows(screen: Screen) -> None:
    _list(screen).press("o")
    for key in ("", "j"):
        if key:
            screen.press(key)
        id_ = _row(screen).rsplit("/", 1)[1]
        _at(screen, f"beside={id_}")
        screen.page.locator(f".split a[href='/executions/{id_}']:not(.table *)").first.wait_for()
    screen.press("Escape")
    _at(screen, "/executions")


def test_a_root_shows_what_it_started_beneath_it(world: World, screen: Screen) -> None:
    functory = world.deployment.functory
    functory.functions.save(PLANS, author="ada")
    plan = functory.executions.start("plans", {"number": 20})["id"]
    functory.settle(60)
    page = screen.page
    page_checks.prepare(page.context)
    lines = page.locator(".table-line")
    _list(screen, "/executions?roots=true").press("ArrowRight")
    expect(page.locator(f"{ACTIVE_ROW}[aria-expanded=true]")).to_have_count(1)
    expect(lines.last).to_have_text("the whole tree →")
    assert 2 < lines.count() <= 13
    assert page_checks.problems(screen, ("light",), lambda _: None) == []
    # What is beneath moves the rows behind it, and hides none.
    tops = page.locator(":is(.table-row, .table-line)").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().top).sort((a, b) => a - b)"
    )
    assert len({round(below - above) for above, below in itertools.pairwise(tops)}) == 1
    screen.press("j", "ArrowRight")
    expect(lines).to_have_text(["It has started nothing."])
    page.get_by_role("button", name="Show what it started").first.click()
    lines.first.get_by_role("link", name="plan.made").click()
    page.wait_for_url("**/events/*")
    page.go_back()
    expect(lines.last).to_have_text("the whole tree →")
    lines.last.get_by_role("link").click()
    page.wait_for_url(f"**/trees/{plan}?at={plan}")
    page.go_back()
    lines.first.wait_for()
    screen.press("k", "k", "ArrowLeft")
    expect(lines).to_have_count(0)


def test_a_range_is_selected_and_unselected(screen: Screen) -> None:
    _list(screen).press("x", "Shift+ArrowDown", "Shift+ArrowDown")
    bar = screen.page.locator(".selection-bar")
    bar.get_by_text("3 selected").wait_for()
    screen.press("x")
    bar.get_by_text("2 selected").wait_for()
    # The rows that the way up leads over are the same, and the one where it began.
    screen.press("Shift+ArrowUp", "K")
    bar.get_by_text("3 selected").wait_for()
    rows = screen.page.locator(".table-row input")
    rows.nth(4).click(modifiers=["Shift"])
    expect(bar).to_contain_text("selected")
    screen.press("Escape")
    bar.wait_for(state="detached")
    _at(screen, "/executions")


def test_all_of_a_filter_are_retried_after_they_were_counted(world: World, screen: Screen) -> None:
    _list(screen, "/executions?function=breaks&state=failed&unresolved=true").press("*", "r")
    dialog = _dialog(screen)
    expect(dialog).to_contain_text(f"Retry {FAILED} executions?")
    button = dialog.get_by_role("button", name=f"Retry {FAILED} executions")
    expect(button).to_be_disabled()
    dialog.get_by_label("Reason").fill("the ledger is back")
    dialog.get_by_label("Type retry").fill("retry")
    # Enter never does a dangerous thing.
    screen.press("Enter")
    assert dialog.is_visible()
    button.click()
    _at(screen, "/batches/*")
    screen.page.get_by_text("done", exact=True).first.wait_for()
    assert "the ledger is back" in screen.text()
    again = world.deployment.functory.executions.list(limit=1000)
    assert sum(row["replay_of"] is not None for row in again) == FAILED


def test_what_a_wrong_version_has_done_is_counted_and_replayed_after_the_fix(
    world: World, screen: Screen
) -> None:
    functory = world.deployment.functory
    functory.functions.save("def cents(n: int) -> int:\n    return n\n", author="ada")
    for number in range(3):
        functory.run("cents", {"n": number})
    screen.go("/functions/cents/v/1").ready().shows("What this version has touched")
    button = screen.page.get_by_role("button", name="Replay after the fix")
    button.wait_for()
    expect(button).to_have_attribute("aria-disabled", "true")
    functory.functions.save("def cents(n: int) -> int:\n    return n * 100\n", author="ada")
    screen.go("/functions/cents/v/1").ready()
    button.click()
    dialog = _dialog(screen)
    expect(dialog).to_contain_text("Replay 3 executions?")
    assert len(functory.executions.list(function="cents")) == 3
    dialog.get_by_label("Reason").fill("cents, not euros")
    screen.press("Enter")
    _at(screen, "/batches/*")
    screen.page.get_by_text("done", exact=True).first.wait_for()
    functory.settle()
    rows = [row for row in functory.executions.list(function="cents") if row["replay_of"] is not None]
    assert [row["version"] for row in rows] == [2, 2, 2]
    assert sorted(functory.executions.get(row["id"])["result"] for row in rows) == [0, 100, 200]


def test_one_execution_is_cancelled_by_its_key(world: World, screen: Screen) -> None:
    id_ = world.start(delay=600)
    screen.go(f"/executions/{id_}").shows("queued").press("c")
    _dialog(screen).get_by_role("button", name="Cancel the execution").click()
    screen.page.locator("h1 ~ *, header, main").get_by_text("cancelled").first.wait_for()
    assert world.deployment.functory.executions.get(id_)["state"] == "cancelled"


def test_an_event_is_emitted_after_its_fault_was_shown(world: World, screen: Screen) -> None:
    screen.expected = ["400", "422"]
    screen.go("/events").page.wait_for_selector(ACTIVE_ROW)
    screen.press("n")
    dialog = _dialog(screen)
    screen.page.keyboard.type("not a type")
    screen.press("Enter")
    dialog.locator(".fault").wait_for()
    dialog.get_by_label("Type").fill("order.cancelled")
    dialog.get_by_label("Data, as JSON").fill("{")
    dialog.get_by_role("button", name="Emit", exact=True).click()
    dialog.get_by_text("This is not JSON").wait_for()
    dialog.get_by_label("Data, as JSON").fill('{"number": 7}')
    dialog.get_by_role("button", name="Emit", exact=True).click()
    screen.page.wait_for_url("**/events/*")
    id_ = screen.page.url.rsplit("/", 1)[1]
    assert world.deployment.functory.events.get(id_)["data"] == {"number": 7}


def test_the_budget_of_a_tree_is_raised(world: World, screen: Screen) -> None:
    screen.go(f"/trees/{world.tree}").page.get_by_role("button", name="raise").click()
    dialog = _dialog(screen)
    dialog.get_by_label("New maximum").fill("54321")
    screen.press("Enter")
    screen.page.locator(".tree-counts").get_by_text("/54,321").wait_for()


def test_the_graph_of_a_tree_is_a_tree_for_readers_and_for_the_keys(world: World, screen: Screen) -> None:
    page = screen.go(f"/trees/{world.tree}?view=graph").ready().page
    boxes = page.get_by_role("tree", name="Graph of the tree").get_by_role("treeitem")
    boxes.first.wait_for()
    said = [(box.get_attribute("aria-level"), box.get_attribute("aria-label")) for box in boxes.all()]
    assert said == [("1", "event order.received routed"), ("2", "execution works succeeded")]
    screen.press("ArrowRight")
    page.get_by_role("treeitem", name="works", selected=True).wait_for()
    screen.press("ArrowLeft")
    page.get_by_role("treeitem", name="order.received", selected=True).wait_for()
    screen.press("j", "Enter")
    _at(screen, "/executions/*")


def test_the_map_says_at_a_cycle_which_guard_stops_it(world: World, screen: Screen) -> None:
    functory = world.deployment.functory
    for name, sends in (("ping", "ball.pong"), ("pong", "ball.ping")):
        source = f"from functory import emit\ndef {name}(event):\n    emit({sends!r}, {{}})\n"
        functory.functions.save(source, author="ada")
    functory.save_trigger("on-ping", on={"type": ["ball.ping"]}, function="ping")
    functory.save_trigger(
        "on-pong", on={"type": ["ball.pong"]}, function="pong", guards={"acknowledge_cycle": 1}
    )
    page = screen.go("/map").ready().shows("Stopped by max_revisits 1").page
    expect(page.locator(".graph-lines .note")).to_have_text(["stopped by max_revisits 1"])
    card = page.locator(".cycles li").inner_text()
    assert "after 2 executions" in card
    assert f"by max_depth {functory.settings.max_depth} of" in card


def test_a_view_is_saved_chosen_and_deleted(screen: Screen) -> None:
    _list(screen, "/executions?function=works&state=succeeded").press("o")
    page = screen.page
    page.get_by_role("button", name="Save view").click()
    page.keyboard.type("good ones")
    screen.press("Enter")
    _list(screen)
    view = page.get_by_role("link", name="good ones")
    view.click()
    _at(screen, "/executions?function=works&state=succeeded")
    page.get_by_role("button", name="Delete the view good ones").click()
    view.wait_for(state="detached")


def test_what_is_named_like_a_form_has_a_page(world: World, screen: Screen) -> None:
    functory = world.deployment.functory
    functory.functions.save("def new() -> int:\n    return 1\n", author="ada")
    functory.register_trigger("new", on={"type": ["never.happens"]}, function="new", input={})
    functory.schedules.save("new", cron="0 7 * * *", timezone="UTC", function="new", input={})
    for kind in ("function", "trigger", "schedule"):
        screen.go(f"/{kind}s/new").page.get_by_role("heading", level=1, name="new", exact=True).wait_for()
        # The key of the list opens the form.
        screen.go(f"/{kind}s").ready()
        screen.page.get_by_role("link", name=f"New {kind}").first.wait_for()
        screen.press("n")
        _at(screen, f"/new/{kind}")
        screen.page.get_by_role("heading", level=1, name=f"New {kind}").wait_for()


def test_the_way_back_shows_the_list_as_it_was_left(screen: Screen) -> None:
    _list(screen)
    page = screen.page
    body = page.locator(".table-body")
    body.evaluate("element => { element.scrollTop = 2400 }")
    page.locator(".table-row[aria-rowindex='80']").click()
    page.wait_for_url("**/executions/*")
    page.wait_for_selector(".table-body", state="detached")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.go_back()
    page.wait_for_selector(".table-row[aria-rowindex='80']")
    assert body.evaluate("element => element.scrollTop") == 2400
    assert not [url for url in asked if "/executions?" in url]


def test_a_deep_link_opens_the_tab_and_the_row_that_it_names(world: World, screen: Screen) -> None:
    screen.go(f"/executions/{world.works}?tab=io").ready()
    expect(screen.page.get_by_role("tab", selected=True)).to_have_text(re.compile("^I/O"))
    _list(screen, f"/executions?function=works&beside={world.works}")
    assert _row(screen).endswith(world.works)


def test_new_rows_come_in_at_the_top_and_wait_while_one_reads(world: World, screen: Screen) -> None:
    _list(screen)
    page = screen.page
    page.locator(".live-live").wait_for()
    first = world.start()
    page.locator(f".table-row a[href='/executions/{first}']").wait_for()
    screen.press("j", "j")
    row = _row(screen)
    second = world.start()
    button = page.get_by_role("button", name="1 new")
    button.wait_for()
    assert _row(screen) == row
    assert not page.locator(f".table-row a[href='/executions/{second}']").count()
    button.click()
    page.locator(f".table-row a[href='/executions/{second}']").wait_for()
    assert _row(screen) == row


def test_a_hidden_tab_stops_and_is_right_again_when_it_is_seen(
    world: World, context_screen: Callable[..., Screen]
) -> None:
    screen = context_screen(
        """
        const later = window.setTimeout;
        window.setTimeout = (act, pause, ...more) => later(act, pause === 60000 ? 0 : pause, ...more);
        let hidden = false;
        Object.defineProperty(document, "hidden", { get: () => hidden });
        window.hide = (value) => { hidden = value; document.dispatchEvent(new Event("visibilitychange")); };
        """
    )
    _list(screen)
    page = screen.page
    page.locator(".live-live").wait_for()
    page.evaluate("hide(true)")
    page.wait_for_timeout(500)
    id_ = world.start()
    world.deployment.functory.settle(30)
    page.wait_for_timeout(700)
    assert not page.locator(f".table-row a[href='/executions/{id_}']").count()
    page.evaluate("hide(false)")
    page.locator(f".table-row a[href='/executions/{id_}']").wait_for()


def test_rows_that_the_stream_left_out_are_counted_and_loaded(
    world: World, context_screen: Callable[..., Screen]
) -> None:
    screen = context_screen("delete window.SharedWorker")
    body = 'retry: 3600000\n\nevent: skipped\ndata: {"topic": "executions", "n": 1240}\n\n'

    streams: list[Route] = []
    screen.page.route("**/api/v1/stream*", lambda route: streams.append(route))
    with screen.page.expect_request(lambda request: "/stream" in request.url and "executions" in request.url):
        _list(screen)
    # Rows that were left out before the list was read are in it.
    streams[-1].fulfill(status=200, content_type="text/event-stream", body=body)
    note = screen.page.locator(".table-note")
    note.get_by_text("1,240 not shown").wait_for()
    note.get_by_role("button", name="load").click()
    note.wait_for(state="detached")


def test_rows_that_come_and_the_way_back_are_drawn_without_a_layout_between_and_nothing_is_asked(
    world: World, context_screen: Callable[..., Screen]
) -> None:
    screen = context_screen(
        """
        window.measured = 0;
        for (const name of ["clientHeight", "scrollTop"]) {
          const { get, set } = Object.getOwnPropertyDescriptor(Element.prototype, name);
          const note = (element) => { if (element.matches(".table-body") && !inFrame) window.measured += 1; };
          Object.defineProperty(Element.prototype, name, {
            configurable: true,
            get() { note(this); return get.call(this); },
            set(value) { note(this); set?.call(this, value); },
          });
        }
        // After its layout the browser has measured everything.
        let inFrame = false;
        const within = (act) => (...given) => {
          inFrame = true;
          try { return act(...given); } finally { inFrame = false; }
        };
        const Observer = window.ResizeObserver;
        window.ResizeObserver = class extends Observer { constructor(act) { super(within(act)); } };
        """
    )
    page = _list(screen).page
    page.locator(".live-live").wait_for()
    id_ = world.start()
    row = page.locator(f".table-row a[href='/executions/{id_}']")
    row.wait_for()
    screen.press("Enter")
    page.wait_for_selector(".trace [role=treeitem]")
    before = page.evaluate("measured")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("history.back()")
    row.wait_for()
    assert page.evaluate("measured") == before == 0
    assert [url for url in asked if "/api/v1/executions?" in url] == []
