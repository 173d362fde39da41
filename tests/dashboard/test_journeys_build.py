"""Journeys through functions and triggers, once with the mouse and once with the keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.dashboard_hands import Hands

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def server(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A server whose world each journey makes for itself."""
    with dashboard_server(tmp_path_factory.mktemp("journeys")) as deployment:
        yield deployment


def mark(screen: Screen) -> None:
    """Put a mark into the page. A page that is loaded anew has lost it."""
    screen.page.evaluate("window.journey = true")


def same_page(screen: Screen) -> bool:
    return bool(screen.page.evaluate("window.journey === true"))


def test_a_saved_version_starts_its_trigger_and_the_tree_grows_before_ones_eyes(
    server: Deployment, hands: Hands
) -> None:
    name, checker = hands.name_for("greet"), hands.name_for("check_greeting")
    server.save(name, f"def {name}(who: str) -> str:\n    return 'hello ' + who\n")
    server.save(
        checker,
        f"def {checker}() -> str:\n    import time\n    time.sleep(1.5)\n    return 'checked'\n",
    )
    server.functory.register_trigger(
        f"on-{name}", on={"type": ["function.updated"], "subject": [name]}, function=checker, input={}
    )
    screen = hands.screen
    screen.go(f"/functions/{name}").ready()
    mark(screen)
    hands.edit(f"Source of {name}", f"def {name}(who: str) -> str:\n    return 'good day ' + who\n")
    screen.shows("no findings")
    hands.use("Control+s", "Save as v2")
    screen.page.get_by_text("Activate at once").wait_for()
    hands.push("Save", exact=True)
    screen.page.locator("dialog").wait_for(state="detached")
    hands.push("what it starts", "link")
    screen.shows("function.updated")
    if hands.keys:
        screen.page.locator(".table-row").first.wait_for()
        screen.press("Enter")
    else:
        screen.page.locator(".table-row").first.click()
    if hands.keys:
        screen.page.get_by_role("link", name="Tree").wait_for()
        screen.press("T")
    else:
        hands.push("Tree", "link")
    node = screen.page.get_by_role("treeitem").filter(has_text=checker)
    node.filter(has_text="succeeded").or_(node.filter(has=screen.page.locator(".tone-ok"))).first.wait_for()
    assert same_page(screen)
    assert server.functory.functions.get(name)["number"] == 2


def test_a_broken_version_is_marked_at_its_line_and_rolled_back_by_its_validation(
    server: Deployment, hands: Hands
) -> None:
    name, check, undo = (hands.name_for(one) for one in ("split", "check_split", "undo_split"))
    good = f"def {name}(text: str) -> list:\n    return text.split()\n"
    server.save(name, good)
    server.save(
        check,
        f"""
        def {check}(event: dict) -> str:
            from functory import call
            version = event["data"]["version"]
            assert call(f"{name}@{{version}}", "a b") == ["a", "b"], "wrong"
            return "fine"
        """,
    )
    server.save(
        undo,
        f"""
        def {undo}(event: dict) -> int:
            from functory import functions
            return functions.rollback("{name}")["active"]
        """,
        permissions=["functions:write"],
    )
    register = server.functory.register_trigger
    register(f"check-{name}", on={"type": ["function.updated"], "subject": [name]}, function=check)
    register(f"undo-{name}", on={"type": ["execution.failed"], "subject": [check]}, function=undo)
    screen = hands.screen
    screen.go(f"/functions/{name}").ready()
    editor = f"Source of {name}"
    hands.edit(editor, f"def {name}(text: str) -> list:\n    return text.split(\n")
    screen.shows("the source has a syntax error")
    expect(screen.page.locator(".cm-lint-marker-error")).to_have_count(1)
    expect(screen.page.get_by_role("button", name="Save as")).to_have_attribute("aria-disabled", "true")
    hands.edit(editor, f"def {name}(text: str) -> list:\n    return list(text)\n")
    screen.shows("no findings")
    hands.use("Control+s", "Save as v2")
    screen.page.get_by_text("Activate at once").wait_for()
    hands.push("Save", exact=True)
    screen.shows(f"Saved {name} v2")
    server.functory.settle()
    screen.go(f"/functions/{name}?tab=versions").ready()
    screen.shows("rollback")
    assert "bad" in screen.text(".table")
    assert server.functory.functions.get(name)["number"] == 1


def test_a_trigger_is_made_from_an_event_by_choosing_values_and_fires_for_the_next_one(
    server: Deployment, hands: Hands
) -> None:
    name = hands.name_for("ship")
    kind = f"{name}.ordered"
    server.save(name, f"def {name}(country: str) -> str:\n    return country\n")
    emit = server.functory.emit
    ids = [
        emit(kind, {"country": "DE" if number % 2 else "FR", "number": number}, subject=f"order-{number}")
        for number in range(6)
    ]
    server.functory.settle()
    screen = hands.screen
    screen.go(f"/events/{ids[-1]}").ready()
    hands.use("n", "New trigger")
    screen.shows("6")
    line = screen.page.locator(".rule-event .json-line").filter(has_text="country")
    target = line.get_by_role("button", name="use")
    hands.reach(target)
    if hands.keys:
        screen.press("Enter")
    screen.page.locator(".preview-head b", has_text=re.compile("^3$")).wait_for()
    hands.write("Name", f"on-{name}")
    hands.write("runs the function", name)
    hands.edit("Input template", '{"country": "{{ data.country }}"}')
    screen.shows("the input for this event fits")
    hands.push("Count")
    screen.page.locator(".backtest-counts b", has_text=re.compile("^3$")).wait_for()
    hands.use("Control+s", "Save the trigger")
    screen.page.get_by_text("Shadow: record").wait_for()
    hands.push("Save", exact=True)
    screen.page.wait_for_url(re.compile(f"/triggers/on-{name}"))
    emit(kind, {"country": "DE", "number": 7}, subject="order-7")
    emit(kind, {"country": "FR", "number": 8}, subject="order-8")
    server.functory.settle()
    rows = server.functory.executions.list(function=name)
    assert [row["state"] for row in rows] == ["succeeded"]


def test_a_paused_trigger_says_why_and_its_matches_say_so_until_it_is_resumed(
    server: Deployment, hands: Hands
) -> None:
    name = hands.name_for("mailer")
    kind = f"{name}.wanted"
    server.save(name, f"def {name}() -> str:\n    return 'sent'\n")
    server.functory.register_trigger(f"on-{name}", on={"type": [kind]}, function=name, input={})
    screen = hands.screen
    screen.go(f"/triggers/on-{name}").ready()
    hands.use("p", "Pause")
    screen.page.get_by_label("Note").wait_for()
    screen.page.keyboard.type("the mail server moves")
    hands.push("Pause", exact=True)
    screen.shows("the mail server moves")
    server.functory.emit(kind, {}, subject="a")
    server.functory.settle()
    screen.go(f"/triggers/on-{name}?tab=firings").ready()
    screen.shows("the trigger is paused")
    hands.use("p", "Resume")
    screen.shows("enabled")
    server.functory.emit(kind, {}, subject="b")
    server.functory.settle()
    assert len(server.functory.executions.list(function=name)) == 1


def test_a_wrong_value_in_a_form_shows_the_servers_fault_at_its_field_and_the_right_one_runs(
    server: Deployment, hands: Hands
) -> None:
    name = hands.name_for("report")
    server.save(name, f"def {name}(title: str, count: int = 3) -> dict:\n    return {{title: count}}\n")
    screen = hands.screen
    screen.expected = ["400"]
    screen.go(f"/functions/{name}").ready()
    hands.write("title*", "sales")
    hands.write("count", "many")
    hands.push("Run", exact=True)
    fault = screen.page.locator(".field", has=screen.page.get_by_label("count")).locator(".field-fault")
    fault.wait_for()
    expect(fault).to_contain_text('"many" is not of type "integer"')
    assert not server.functory.executions.list(function=name)
    hands.write("count", "12")
    hands.push("Run", exact=True)
    started = screen.page.locator(".started")
    started.get_by_text("succeeded").wait_for()
    started.get_by_text("12", exact=True).wait_for()


def test_who_saves_second_sees_what_changed_and_saves_over_it(server: Deployment, hands: Hands) -> None:
    name = hands.name_for("shared")
    server.save(name, f"def {name}() -> str:\n    return 'first'\n")
    screen = hands.screen
    screen.expected = ["412"]
    screen.go(f"/functions/{name}").ready()
    hands.edit(f"Source of {name}", f"def {name}() -> str:\n    return 'mine'\n")
    server.save(name, f"def {name}() -> str:\n    return 'theirs'\n")
    hands.use("Control+s", "Save as v3")
    screen.page.get_by_role("heading", name=f"Save {name} as v3").wait_for()
    hands.push("Save", exact=True)
    screen.page.get_by_role("link", name="What changed since v1").wait_for()
    hands.push("Save over v2")
    screen.shows(f"Saved {name} v3")
    row = server.functory.functions.get(name)
    assert (row["active"], "'mine'" in row["source"]) == (3, True)


def test_a_large_integer_is_the_same_in_a_form_in_the_function_and_on_the_pages(
    server: Deployment, hands: Hands
) -> None:
    # Neither is a number of JavaScript.
    largest, middle = 2**64 - 1, 2**53 + 1
    name = hands.name_for("ledger")
    server.save(name, f"def {name}(account: int, rows) -> dict:\n    return {{'rows': [account, *rows]}}\n")
    screen = hands.screen
    screen.go(f"/functions/{name}").ready()
    hands.write("account*", str(largest))
    hands.write("rows*", f"[{middle}, -{middle}]")
    hands.push("Run", exact=True)
    screen.page.locator(".started").get_by_text("succeeded").wait_for()
    (row,) = server.functory.executions.list(function=name)
    assert server.functory.executions.get(row["id"])["result"] == {"rows": [largest, middle, -middle]}
    screen.go(f"/executions/{row['id']}").ready()
    for number in (largest, middle, -middle):
        # In the input and in the result.
        expect(screen.page.locator(".json-number", has_text=re.compile(rf"^{number}$"))).to_have_count(2)
    event = server.functory.emit("ledger.closed", {"account": largest})
    screen.go(f"/events/{event}").ready()
    hands.push("Emit a copy")
    expect(screen.page.get_by_label("Data, as JSON")).to_have_value(re.compile(str(largest)))


def test_the_runs_of_a_function_come_with_advice_and_with_where_their_time_went(
    server: Deployment, hands: Hands
) -> None:
    name, part = hands.name_for("halve"), hands.name_for("part")
    server.save(part, f"def {part}(n: int) -> int:\n    return n\n")
    source = f"def {name}(n: int) -> int:\n    if n > 1:\n        raise KeyError(n)\n    return {part}(n)\n"
    server.save(name, source, dependencies=[part])
    for number in range(7):
        server.functory.run(name, {"n": number})
    screen = hands.screen
    screen.go(f"/functions/{name}?tab=runs").ready()
    screen.shows("5 of 5 failed attempts are KeyError")
    screen.shows(f"functory execution list --function {name} --state failed")
    screen.shows("Where the time of 7 executions of v1 went")
    screen.page.get_by_role("link", name=part).wait_for()
