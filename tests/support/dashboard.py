"""A real server with a dashboard for tests, and pages of it in Chromium.

    with dashboard_server(folder) as deployment:
        seed(deployment.functory)
        screen = deployment.open(browser, "/executions")

A screen collects what the browser says. `screen.silent()` fails for a console message, a dialog, a request to another
host or an answer of 500 and more.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functory.api import create_app
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from functory.engine.access.logins import login_address
from functory.engine.settings import Settings
from tests.support.patience import patient

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request, Response

# Debian's Chromium as root, without the connections that it makes by itself.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 360, "height": 780}


def launch(playwright: Playwright, program: Path) -> Browser:
    """Start Chromium without a window. What waits for a page waits as long as the machine is slow."""
    from playwright.sync_api import expect

    expect.set_options(timeout=patient(10_000))
    return playwright.chromium.launch(executable_path=str(program), args=list(ARGUMENTS))


@dataclass
class Screen:
    """A page in the browser, and what the browser said about it."""

    page: Page
    url: str
    said: list[str] = field(default_factory=list)
    # Texts that a test expects the browser to say, such as the address of an answer 404.
    expected: list[str] = field(default_factory=list)
    # What the page has asked the API for since it was opened, each once: what is asked for again every few seconds
    # counts once. Who is logged in and the stream are asked for once for all pages.
    asked: dict[str, None] = field(default_factory=dict)
    # The newest answer to each of them.
    answers: dict[str, Response] = field(default_factory=dict)
    # Keys that `press` has pressed.
    pressed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def _dialog(self, dialog: Any) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.said.append(f"request to elsewhere: {request.url}")
        question = self._question(request)
        if question is not None:
            self.asked[question] = None

    def _response(self, response: Response) -> None:
        question = self._question(response.request)
        if question is not None:
            self.answers[question] = response

    def _question(self, request: Request) -> str | None:
        """What a request asks the API for; None for one that does not count."""
        address = request.url.removeprefix(f"{self.url}/api/v1")
        if address == request.url or address.startswith(("/me", "/stream")):
            return None
        return f"{request.method} {address}"

    def answer_bytes(self) -> dict[str, int]:
        """The bytes of JSON that each question of the page was answered with, before compression."""
        # Further answers may come while these are read.
        return {question: len(response.body()) for question, response in [*self.answers.items()]}

    def go(self, path: str) -> Screen:
        """Open an address of the dashboard and wait until its heading is there."""
        # What the page before asks for meanwhile does not count.
        self.page.goto("about:blank")
        self.asked.clear()
        self.answers.clear()
        self.page.goto(f"{self.url}{path}", wait_until="commit")
        self.page.wait_for_selector("h1")
        return self

    def ready(self) -> Screen:
        """Wait until no skeleton is shown any more."""
        self.page.wait_for_selector(".skeleton", state="detached")
        return self

    def shows(self, text: str) -> Screen:
        """Wait until the page shows this text."""
        self.page.get_by_text(text).filter(visible=True).first.wait_for()
        return self

    def silent(self) -> None:
        """Fail for anything that the browser said and the test did not expect."""
        unexpected = self.unexpected()
        assert not unexpected, unexpected

    def unexpected(self) -> list[str]:
        """What the browser said and the test did not expect."""
        return [text for text in self.said if not any(part in text for part in self.expected)]

    def fits(self) -> None:
        """Fail when the page is wider than the window."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{self.page.url} is {wide} px too wide"

    def text(self, selector: str = "main") -> str:
        """The visible text of the first element."""
        return self.page.locator(selector).first.inner_text()

    def press(self, *keys: str) -> Screen:
        """Press keys, one after the other."""
        self.pressed += keys
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def picture(self, file: Path) -> Path:
        """Save what is seen as a PNG file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(file))
        return file


@dataclass
class Deployment:
    """An embedded engine with its server."""

    functory: Functory
    url: str
    _cookies: list[Any] = field(default_factory=list, repr=False)

    def save(self, name: str, source: str, **declared: Any) -> None:
        """Save a function whose source may be indented."""
        self.functory.functions.save(textwrap.dedent(source).lstrip(), name=name, author="ada", **declared)

    def context(
        self, browser: Browser, *, theme: str = "light", phone: bool = False, **options: Any
    ) -> BrowserContext:
        """A browser context of its own, without a login."""
        context = browser.new_context(
            viewport=PHONE if phone else DESKTOP,  # type: ignore[arg-type]
            has_touch=phone,
            color_scheme=theme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(patient(30_000))
        return context

    def log_in(self, context: BrowserContext) -> Screen:
        """A screen of the context, in which the owner is logged in. No page is open in it.

        All contexts share one login: an address may log in only so often.
        """
        if not self._cookies:
            answer = context.request.post(
                f"{self.url}/api/v1/login",
                data={"link": self.functory.logins.new_link()},
                headers={"origin": self.url},
            )
            assert answer.ok, answer.text()
            self._cookies = context.cookies()
        context.add_cookies(self._cookies)
        return Screen(context.new_page(), self.url)

    def log_in_by_link(self, context: BrowserContext) -> Screen:
        """A screen of the context, in which the owner opened the link that ``functory dev`` prints."""
        screen = Screen(context.new_page(), self.url)
        screen.page.goto(login_address(self.url, self.functory.logins.new_link()))
        screen.page.wait_for_selector("h1")
        return screen

    def log_in_as(self, context: BrowserContext, name: str, password: str) -> Screen:
        """A screen in which a user is logged in by the form."""
        screen = Screen(context.new_page(), self.url, expected=["401"])
        screen.page.goto(f"{self.url}/login")
        screen.page.fill("input[name=name]", name)
        screen.page.fill("input[name=password]", password)
        screen.page.click("button[type=submit]")
        screen.page.wait_for_selector("main#page h1:not(form h1)")
        return screen


@contextlib.contextmanager
def dashboard_server(
    folder: Path, *, start: bool = True, port: int = 0, owner: bool = True, **settings: Any
) -> Iterator[Deployment]:
    """An embedded engine, its roles (``start``), and the HTTP server with the dashboard on a free port of loopback."""
    given = Settings(home=folder / "home", poll_seconds=0.05, **settings)
    with Functory(given) as functory:
        server = Server(create_app(functory, owner=owner), "127.0.0.1", port, ConnectionLimits())
        server.start()
        if start:
            functory.start()
        try:
            yield Deployment(functory, server.url)
        finally:
            server.stop(5)


PARSE_1 = '''
def parse_invoice(raw: dict) -> dict:
    """Reads an invoice."""
    total = raw.get("amount", 0)
    return {"id": raw["id"], "total": total}
'''
PARSE_2 = '''
def parse_invoice(raw: dict) -> dict:
    """Reads an invoice."""
    print("parsing", raw.get("id"))
    print("\\x1b[33mwarning:\\x1b[0m the amount has no currency")
    total = raw["amount"]
    return {"id": raw["id"], "total": total}
'''
VALIDATE = '''
import functory

def validate_order(id: int, total: float) -> dict:
    """Checks an order and says so."""
    if total > 100:
        functory.emit("order.checked", {"id": id, "total": total})
    return {"ok": True, "lines": [{"sku": f"A-{n}", "price": n * 1.5} for n in range(4)]}
'''
NOTIFY = """
def notify_owner(about: str) -> str:
    return f"told about {about}"
"""


def seed(functory: Functory, orders: int = 12) -> dict[str, str]:
    """A small world that ran: functions, triggers, trees, failures, guards. Returns ids by what they are."""
    functions = functory.functions
    for source in (PARSE_1, PARSE_2, VALIDATE, NOTIFY):
        functions.save(textwrap.dedent(source).lstrip(), author="ada")
    functory.register_trigger(
        "on-order-received",
        on={"type": ["order.received"]},
        function="parse_invoice",
        input={"raw": "{{ event.data }}"},
    )
    functory.register_trigger(
        "on-parsed",
        on={"type": ["order.parsed"]},
        function="validate_order",
        input={"id": "{{ event.data.id }}", "total": "{{ event.data.total }}"},
    )
    functory.register_trigger(
        "notify-owner",
        on={"type": ["order.checked"]},
        function="notify_owner",
        input={"about": "order {{ event.data.id }}"},
    )
    functory.register_trigger(
        "big-orders",
        on={
            "type": ["order.received"],
            "data": {"amount": [{"numeric": [">", 500]}], "customer": {"country": ["DE"]}},
        },
        function="notify_owner",
        input={"about": "{{ event.subject }}"},
    )
    ids = {}
    for number in range(orders):
        data = {
            "id": number,
            "customer": {"name": f"Customer {number}", "country": "DE" if number % 2 else "FR"},
        }
        if number != 3:
            data["amount"] = 90.5 + number * 40
        ids[f"order {number}"] = functory.emit("order.received", data, subject=f"order-{4700 + number}")
        functory.emit(
            "order.parsed", {"id": number, "total": 90.5 + number * 40}, subject=f"order-{4700 + number}"
        )
    functory.settle()
    failed = _rows(functory, state="failed") or _rows(functory, state="dead")
    ids["failed"] = failed[0]["id"]
    succeeded = [row for row in _rows(functory, state="succeeded") if row["function"] == "parse_invoice"]
    ids["succeeded"] = succeeded[0]["id"]
    return ids


def _rows(functory: Functory, state: str) -> Sequence[dict[str, Any]]:
    return [row for row in functory.executions.list(limit=500) if row["state"] == state]
