"""The page of an execution: its log while it runs, a long log, attempts, versions, and what a picture leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.waiting import wait_for
from tests.support.world import lines

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def deployment(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with dashboard_server(tmp_path_factory.mktemp("execution")) as deployment:
        yield deployment


def test_lines_appear_while_the_execution_runs(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save(
        lines(
            "import time",
            "def talk():",
            "    for n in range(6000):",
            "        print('line', n, flush=True)",
            "        time.sleep(0.1)",
        )
    )
    row = functory.executions.start("talk", {})
    screen.go(f"/executions/{row['id']}?tab=log")

    def newest() -> int:
        # The page follows the end: older lines may be out of sight.
        drawn = screen.page.locator(".log-line:not(.log-probe)").all_inner_texts()
        return max((int(number) for text in drawn for number in re.findall(r"line (\d+)", text)), default=-1)

    wait_for(lambda: newest() >= 0)
    seen = newest()
    wait_for(lambda: newest() > seen)
    assert functory.executions.get(row["id"])["state"] == "running"
    functory.executions.cancel(row["id"])
    functory.executions.wait([row["id"]], 60)


def test_lines_between_the_first_and_the_last_are_told_of_and_read(
    screen: Screen, deployment: Deployment
) -> None:
    functory = deployment.functory
    functory.functions.save(
        lines(
            "def many(lines: int):",
            "    for n in range(lines):",
            "        print(f'line {n} ' + 'x' * 300)",
        )
    )
    row = functory.run("many", {"lines": 3000})
    screen.go(f"/executions/{row['id']}?tab=log").shows("not all are here")
    log = screen.page.get_by_role("log")
    expect(log).to_contain_text("Lines are not shown here.")
    log.get_by_role("button", name="load").click()
    screen.shows("3,000 lines")
    expect(log).not_to_contain_text("are not shown here")
    expect(screen.page.get_by_text("not all are here")).to_have_count(0)
    screen.page.get_by_label("wrap").check()
    log.evaluate("log => log.scrollTop = log.scrollHeight")
    expect(log).to_contain_text("line 2999")
    assert log.evaluate("log => log.scrollWidth - log.clientWidth") <= 1
    assert screen.page.evaluate("document.querySelectorAll('.log *').length") < 1000


def test_an_attempt_whose_lines_are_not_among_the_last_ones_shows_them(
    screen: Screen, deployment: Deployment
) -> None:
    functory = deployment.functory
    functory.functions.save(
        lines(
            "def twice():",
            "    for n in range(1500):",
            "        print('line', n)",
            "    raise ValueError('again')",
        ),
        limits={"retries": 1, "retry_delay": 0.1, "max_attempts": 2},
    )
    row = functory.executions.start("twice", {})
    functory.executions.wait([row["id"]], 120)
    screen.go(f"/executions/{row['id']}?tab=log").shows("not all are here")
    screen.page.get_by_role("button", name="attempt 1").click()
    log = screen.page.get_by_role("log")
    expect(log).to_contain_text("Up to 500 lines are not shown here.")
    log.get_by_role("button", name="load").click()
    screen.shows("1,500 lines")
    expect(screen.page.get_by_text("not all are here")).to_have_count(0)


def test_the_versions_that_it_used_are_links(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save("def leaf() -> int:\n    return 7\n")
    functory.functions.save("def top() -> int:\n    return leaf()\n", dependencies=["leaf"])
    row = functory.run("top", {})
    screen.go(f"/executions/{row['id']}?tab=io").ready()
    link = screen.page.get_by_role("link", name="leaf v1")
    expect(link).to_have_attribute("href", re.compile("^/functions/leaf/v/1$"))


def test_a_picture_of_a_tree_says_how_much_it_leaves_out(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save(
        lines(
            "import functory",
            "def burst():",
            "    for n in range(300):",
            "        functory.emit(f'piece.made_{n}', {})",
        )
    )
    row = functory.run("burst", {})
    for address in (
        f"/executions/{row['id']}?tab=trace",
        f"/trees/{row['id']}?view=time",
        f"/trees/{row['id']}?view=graph",
    ):
        screen.go(address).ready().shows("not drawn")
        expect(screen.page.get_by_role("link", name="the outline")).to_be_visible()


def test_a_function_that_returned_nothing_has_no_fault(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save("def nothing():\n    return None\n")
    row = functory.run("nothing", {})
    screen.go(f"/executions/{row['id']}?tab=io").ready().shows("It returned nothing.")


def test_a_tree_is_cancelled_from_its_page(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save("import time\ndef slow():\n    time.sleep(600)\n")
    functory.functions.save(
        lines(
            "from functory import submit",
            "def leaves():",
            "    return submit('slow', abandon=True).id",
        )
    )
    row = functory.run("leaves", {})
    left = row["result"]
    screen.go(f"/trees/{row['id']}").ready()
    expect(screen.page.get_by_role("button", name="Cancel the tree")).to_be_visible()
    screen.press("c")
    screen.page.get_by_role("dialog").get_by_role("button", name="Cancel all of it").click()
    functory.executions.wait([left], 60)
    assert functory.executions.get(left)["state"] == "cancelled"
    expect(screen.page.get_by_role("button", name="Cancel the tree")).to_have_count(0)


def test_the_input_of_an_execution_is_edited_and_run(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save(
        "def price(amount: int, currency: str = 'EUR') -> str:\n    return f'{amount} {currency}'\n"
    )
    row = functory.run("price", {"amount": 4711, "currency": "SEK"})
    screen.go(f"/executions/{row['id']}").ready().press("e")
    panel = screen.page.get_by_label("Run", exact=True)
    expect(panel).to_contain_text("With the input of")
    expect(panel.get_by_label("currency")).to_have_value("SEK")
    panel.get_by_label("amount").fill("12")
    panel.get_by_role("button", name="Run", exact=True).click()
    expect(panel).to_contain_text("12 SEK")
