"""Every key that the list behind `?` shows on the pages that are looked at: it is pressed, and the page changes as the
list says. A new key without a line here fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.dashboard import Screen, dashboard_server, seed
from tests.support.dashboard_world import SETTINGS, everything
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# What a key changes: a script that looks at it.
ADDRESS = "location.pathname + location.search"
ROW = "document.querySelector('.table-row.active')?.getAttribute('aria-rowindex')"
LINE = "document.querySelector('.outline-row[aria-selected=true]').id"
BOX = "document.querySelector('.tree-graph').getAttribute('aria-activedescendant')"
SPAN = "document.querySelector('.trace-row[aria-selected=true]')?.id ?? ''"
LINES = "document.querySelectorAll('.table-line').length"
SELECTED = "document.querySelector('.selection-bar')?.innerText ?? ''"
DIALOG = "document.querySelector('dialog[open]')?.innerText ?? ''"
FIELD = "document.activeElement.tagName"
TIMES = "document.querySelector('time').innerText"
WRAP = "document.querySelector('.log').className"
ZOOM = "document.querySelector('.trace-axis').innerText"
CRITICAL = "document.querySelector('.trace-tools button').getAttribute('aria-pressed')"
SCALE = "document.querySelector('.graph-sizer').style.transform"
LIVE = "document.querySelector('.live').getAttribute('aria-pressed')"
TOASTS = "document.querySelector('.toasts').innerText"
BUTTONS = "document.querySelector('.page-head').innerText"
QUESTION = "document.querySelector('.questions .current')?.innerText"
COPIED = "navigator.clipboard.readText()"
EXPANDED = "document.querySelector('.outline-row[aria-selected=true]').getAttribute('aria-expanded')"


class Press(NamedTuple):
    """A key, its label in the list, and what it changes. ``then`` are keys that bring the page back."""

    label: str
    key: str
    changes: str
    then: tuple[str, ...] = ()


IN_LIST = [
    Press("Next row", "j", ROW), Press("Previous row", "k", ROW),
    Press("Next row", "ArrowDown", ROW), Press("Previous row", "ArrowUp", ROW),
    Press("Last row that is loaded", "End", ROW), Press("First row", "Home", ROW),
    Press("A page down", "PageDown", ROW), Press("A page up", "PageUp", ROW),
]  # fmt: skip
EVERYWHERE = [
    Press("Palette", "Control+k", DIALOG, ("Escape",)), Press("Actions", ".", DIALOG, ("Escape",)),
    Press("This list", "?", DIALOG, ("Escape",)),
    Press("Times: relative, local, UTC", "t", TIMES, ("t", "t")),
    Press("Live updates on or off", "l", LIVE, ("l",)),
    Press("Copy the link", "y", COPIED),
]  # fmt: skip
TABS = [
    Press("Log", "2", ADDRESS), Press("I/O", "3", ADDRESS), Press("Why", "4", ADDRESS),
    Press("Models", "5", ADDRESS), Press("Trace", "1", ADDRESS),
]  # fmt: skip
# By the address at which they are pressed, in this order.
KEYS: dict[str, list[Press]] = {
    "/executions": [
        *IN_LIST,
        *EVERYWHERE,
        Press("Go to the filter", "/", FIELD, ("Escape",)),
        Press("Next row", "j", ROW), Press("Next row", "j", ROW),
        Press("Select the row", "x", SELECTED),
        Press("Select a range upwards", "K", SELECTED),
        Press("Select a range upwards", "Shift+ArrowUp", SELECTED),
        Press("Next row", "j", ROW), Press("Next row", "j", ROW), Press("Next row", "j", ROW),
        Press("Select a range downwards", "J", SELECTED),
        Press("Select a range downwards", "Shift+ArrowDown", SELECTED),
        Press("Select all of this filter", "*", SELECTED),
        Press("Retry what is selected", "r", DIALOG, ("Escape",)),
        Press("Replay what is selected", "R", DIALOG, ("Escape",)),
        # None of them is open any more, and a note says so.
        Press("Cancel what is selected", "c", TOASTS),
        Press("Clear the selection", "Escape", SELECTED),
        Press("Failed only", "f", ADDRESS),
        Press("Remove all filters", "F", ADDRESS),
        Press("Open the row beside the list", "o", ADDRESS),
        Press("Close the part beside", "Escape", ADDRESS),
        Press("Open the row", "Enter", ADDRESS),
        Press("Next of the list", "]", ADDRESS),
        Press("Previous of the list", "[", ADDRESS),
        Press("Up", "Escape", ADDRESS),
    ],
    "/executions?roots=true": [
        Press("Show what it started", "ArrowRight", LINES), Press("Hide what it started", "ArrowLeft", LINES),
    ],
    "/trees/{order 5}?view=time": [
        Press("Next row", "j", SPAN), Press("Previous row", "k", SPAN),
        Press("Last row", "End", SPAN), Press("First row", "Home", SPAN),
        Press("Zoom in", "+", ZOOM), Press("Zoom in", "=", ZOOM), Press("Zoom out", "-", ZOOM),
        Press("Show all of the time", "0", ZOOM),
        Press("Critical path", "x", CRITICAL),
    ],
    "/executions/{succeeded}": [
        *TABS,
        Press("Why", "w", ADDRESS),
        Press("Copy the id", "Y", COPIED),
        Press("Replay", "R", ADDRESS),
    ],
    "/executions/{succeeded}?tab=io": [Press("Tree", "T", ADDRESS)],
    "/executions/{succeeded}?tab=why": [Press("Edit the input and run", "e", ADDRESS)],
    "/executions/{succeeded}?tab=log": [Press("Wrap lines", "w", WRAP)],
    "/trees/{order 5}": [
        Press("Last line", "End", LINE), Press("First line", "Home", LINE),
        Press("Next line", "j", LINE), Press("Previous line", "k", LINE),
        Press("Fold", "ArrowLeft", EXPANDED), Press("Unfold", "ArrowRight", EXPANDED),
        Press("Only the ways to failures", "f", ADDRESS, ("f",)),
        Press("Outline, time, graph", "v", ADDRESS),
    ],
    "/trees/{order 5}?view=graph": [
        Press("Last box", "End", BOX), Press("First box", "Home", BOX),
        Press("Next box", "j", BOX), Press("Previous box", "k", BOX),
        Press("What it led to first", "ArrowRight", BOX), Press("What led to it", "ArrowLeft", BOX),
        Press("Open the box's page", "Enter", ADDRESS),
    ],
    "/trees/{order 5}?at={order 5}": [Press("Open the line's page", "Enter", ADDRESS)],
    "/events": [
        Press("Undecided only", "f", ADDRESS), Press("Remove all filters", "F", ADDRESS),
        Press("Emit an event", "n", DIALOG, ("Escape",)),
        Press("Open the row beside the list", "o", ADDRESS), Press("Close the part beside", "Escape", ADDRESS),
    ],
    "/events/{order 5}": [
        Press("Emit an edited copy", "e", DIALOG, ("Escape",)),
        Press("New trigger from this event", "n", ADDRESS),
    ],
    "/events/{order 6}": [Press("Tree", "T", ADDRESS)],
    "/map": [
        Press("Larger", "+", SCALE), Press("Larger", "=", SCALE), Press("Smaller", "-", SCALE),
        Press("Fit to the width", "0", SCALE),
    ],
    "/triggers/big-orders": [
        Press("Dry run", "d", TOASTS), Press("Pause", "p", DIALOG, ("Escape",)),
        Press("Firings", "2", ADDRESS), Press("Flow", "3", ADDRESS), Press("Versions", "4", ADDRESS),
        Press("Rule", "1", ADDRESS),
    ],
    "/runs": [Press("Failed only", "f", ADDRESS), Press("Remove all filters", "F", ADDRESS)],
    "/calls": [Press("Failed only", "f", ADDRESS), Press("Remove all filters", "F", ADDRESS)],
    "/triggers": [Press("New trigger", "n", ADDRESS)],
    "/functions": [Press("New function", "n", ADDRESS)],
}  # fmt: skip
# Over a world with some of everything. What a key would do is left in its dialog, or is turned back.
FURNISHED: dict[str, list[Press]] = {
    "/schedules": [Press("New schedule", "n", ADDRESS)],
    "/watches": [Press("New watch", "n", ADDRESS)],
    "/webhooks": [Press("New webhook", "n", ADDRESS)],
    "/queues": [Press("New queue", "n", ADDRESS)],
    "/schedules/nightly": [
        Press("Pause", "p", DIALOG, ("Escape",)), Press("Backfill", "b", DIALOG, ("Escape",)),
        Press("Run now", "r", DIALOG, ("Escape",)), Press("Edit", "e", ADDRESS),
    ],
    "/schedules/every-hour": [Press("Resume", "p", BUTTONS)],
    "/new/webhook": [Press("Save", "Control+s", TOASTS)],
    "/models": [Press("New model", "n", ADDRESS)],
    "/models/large": [
        Press("Test the model", "r", DIALOG, ("Escape",)), Press("Edit", "e", ADDRESS),
    ],
    "/models/small": [Press("Disable", "p", BUTTONS)],
    "/models/local": [Press("Enable", "p", BUTTONS)],
    "/spend": [Press("Set a quota", "n", DIALOG, ("Escape",))],
    "/executions/{asked}?tab=models": [Press("Raise the budget", "b", DIALOG, ("Escape",))],
    "/executions/{failed}": [Press("Retry", "r", ADDRESS)],
    "/agents/clerk": [
        Press("Start a run", "r", DIALOG, ("Escape",)), Press("Disable", "p", BUTTONS),
    ],
    "/runs/{run}": [
        Press("Model calls", "2", ADDRESS), Press("Memo", "3", ADDRESS), Press("Steps", "1", ADDRESS),
        Press("Tree", "T", ADDRESS),
    ],
    "/runs/{run asks}": [
        Press("Pause", "p", DIALOG, ("Escape",)), Press("Cancel", "c", DIALOG, ("Escape",)),
        Press("Answer", "A", DIALOG, ("Escape",)), Press("Reject", "D", DIALOG, ("Escape",)),
    ],
    "/runs/{run paused}": [Press("Resume", "p", DIALOG, ("Escape",))],
    "/runs/{run refund}": [
        Press("Approve", "A", DIALOG, ("Escape",)), Press("Edit the arguments", "E", DIALOG, ("Escape",)),
    ],
    "/approvals": [
        Press("Next question", "j", QUESTION), Press("Question before", "k", QUESTION),
        Press("Decided", "2", ADDRESS), Press("Grants", "3", ADDRESS), Press("Refused grants", "4", ADDRESS),
        Press("Grants in effect", "5", ADDRESS), Press("Questions", "1", ADDRESS),
    ],
    "/approvals?tab=grants": [
        Press("Approve the first", "A", DIALOG, ("Escape",)), Press("Refuse the first", "D", DIALOG, ("Escape",)),
    ],
    "/suppressions": [
        Press("Open the row", "Enter", ADDRESS),
        Press("Run all of it once", "R", DIALOG, ("Escape",)),
        Press("Close the part beside", "Escape", ADDRESS),
    ],
    "/audit": [Press("Open the row", "Enter", ADDRESS), Press("Close the part beside", "Escape", ADDRESS)],
    "/secrets": [Press("New secret", "n", DIALOG, ("Escape",))],
    "/people": [Press("New user", "n", DIALOG, ("Escape",))],
    "/people/ada": [Press("Change rights", "e", DIALOG, ("Escape",))],
}  # fmt: skip
PAGES = {
    "o": "/", "x": "/executions", "e": "/events", "f": "/functions", "t": "/triggers", "m": "/map",
    "s": "/schedules", "w": "/watches", "h": "/webhooks", "q": "/queues", "r": "/runs", "n": "/agents",
    "l": "/models", "c": "/calls", "d": "/spend", "u": "/suppressions", "a": "/approvals", "i": "/health",
}  # fmt: skip


# Their labels, and the keys: they do something once a text was changed.
IN_EDITORS = {"Save": "Control+s", "Show the difference": "Control+Shift+D"}


class World(NamedTuple):
    """A screen of the owner over a small world, and the ids of that."""

    screen: Screen
    ids: dict[str, str]

    def open(self, path: str) -> Screen:
        """A page of the world, when it is there."""
        screen = self.screen.go(path.format(**self.ids)).ready()
        screen.page.wait_for_selector(
            "main :is(.table-row.active, .card, [role=tree], .graph-sizer, .log, [role=tablist], .tabs, .lines, .empty)"
        )
        return screen


@pytest.fixture(scope="module")
def world(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with dashboard_server(tmp_path_factory.mktemp("keys")) as deployment:
        ids = seed(deployment.functory)
        context = deployment.context(chromium_server, permissions=["clipboard-read", "clipboard-write"])
        screen = deployment.log_in(context)
        yield World(screen, ids)
        context.close()


@pytest.fixture(scope="module")
def furnished(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("furnished")
    with dashboard_server(folder, **SETTINGS) as deployment:
        ids = everything(deployment.functory, folder)
        context = deployment.context(chromium_server)
        screen = deployment.log_in(context)
        yield World(screen, ids)
        context.close()


def _value(screen: Screen, script: str) -> Any:
    """What the script sees. A list that jumps shows no active row until it has drawn its new lines."""

    def seen() -> tuple[Any] | None:
        found = screen.page.evaluate(f"async () => await ({script})")
        return None if found is None else (found,)

    return wait_for(seen, what=script)[0]


def _press(screen: Screen, one: Press) -> None:
    before = _value(screen, one.changes)
    screen.press(one.key)
    wait_for(
        lambda: _value(screen, one.changes) != before,
        seconds=5,
        what=f"{screen.page.url}: {one.key} ({one.label}) changes {before!r}",
    )
    screen.press(*one.then)
    if "Escape" in one.then:
        screen.page.wait_for_selector("dialog[open]", state="detached")


@pytest.mark.parametrize("path", KEYS)
def test_a_key_does_what_the_list_says(path: str, world: World) -> None:
    screen = world.open(path)
    for one in KEYS[path]:
        _press(screen, one)


@pytest.mark.parametrize("path", FURNISHED)
def test_a_key_of_a_page_with_more_does_what_the_list_says(path: str, furnished: World) -> None:
    screen = furnished.open(path)
    for one in FURNISHED[path]:
        _press(screen, one)


def test_each_page_has_its_key(world: World) -> None:
    screen = world.open("/executions")
    for letter, path in PAGES.items():
        screen.press("g", letter)
        screen.page.wait_for_url(f"**{path}" if path != "/" else f"{screen.url}/")


def test_the_list_of_keys_has_no_key_that_is_not_pressed_here(world: World, furnished: World) -> None:
    pressed = {one.label for keys in (*KEYS.values(), *FURNISHED.values()) for one in keys}
    listed: set[str] = set()
    for path in (*KEYS, *FURNISHED):
        screen = (world if path in KEYS else furnished).open(path)
        screen.press("?")
        screen.page.wait_for_selector("dialog[open] .help")
        script = """[...document.querySelectorAll('.help section')]
            .filter((one) => one.querySelector('h3').innerText !== 'Pages')
            .flatMap((one) => [...one.querySelectorAll('dt')].map((label) => label.innerText))"""
        listed |= set(screen.page.evaluate(script))
        screen.press("Escape")
    assert listed - pressed <= set(IN_EDITORS) <= listed


@pytest.mark.parametrize("key", IN_EDITORS.values(), ids=str)
def test_a_key_of_an_editor_shows_what_would_be_saved(key: str, world: World) -> None:
    screen = world.open("/functions/parse_invoice")
    screen.page.locator(".cm-content").first.click()
    screen.page.keyboard.type("# ")
    screen.page.get_by_role("button", name="Discard changes").wait_for()
    _press(screen, Press("", key, DIALOG, ("Escape",)))
    # The page asks before a change is left.
    screen.page.get_by_role("button", name="Discard changes").click()


def test_a_letter_does_nothing_in_a_field(world: World) -> None:
    screen = world.open("/executions")
    screen.press("/")
    before = _value(screen, ROW)
    screen.page.keyboard.type("jx*")
    assert (_value(screen, ROW), _value(screen, SELECTED)) == (before, "")
