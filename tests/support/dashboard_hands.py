"""Hands on a page of the dashboard: one pair uses the mouse, the other one the keyboard alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.dashboard import Screen

if TYPE_CHECKING:
    from playwright.sync_api import Locator

# Tab stops of a page at most.
STOPS = 120
# Keys that go to a part or choose its text.
WAY = ("Tab", "Control+a")
_FOCUSED = "element => element.getRootNode().activeElement === element"


@dataclass
class Hands:
    """What a person does. With ``keys`` nothing is clicked: the keyboard has to reach it."""

    screen: Screen
    keys: bool

    def name_for(self, base: str) -> str:
        """A name that the other hands do not use."""
        return f"{base}_{'keys' if self.keys else 'mouse'}"

    @property
    def strokes(self) -> list[str]:
        """The keys pressed so far, without what was written and without the Tabs on the way to a part."""
        return [key for key in self.screen.pressed if key not in WAY]

    def reach(self, target: Locator) -> None:
        """Bring the focus to a part of the page."""
        target.wait_for()
        if not self.keys:
            target.click()
            return
        for _ in range(STOPS):
            if target.evaluate(_FOCUSED):
                return
            # Esc, then Tab leaves an editor, where Tab alone indents. A comparison has nothing to indent.
            if self.screen.page.evaluate(
                "document.activeElement?.shadowRoot?.activeElement?.isContentEditable"
            ):
                self.screen.press("Escape")
            self.screen.press("Tab")
        raise AssertionError(f"Tab does not reach {target}")

    def push(self, name: str, role: str = "button", *, exact: bool = False) -> None:
        """Push a button or follow a link by its name; while a dialog is open, one of the dialog."""
        dialog = self.screen.page.locator("dialog[open]")
        within = dialog if dialog.count() else self.screen.page
        target = within.get_by_role(role, name=name, exact=exact).first  # type: ignore[arg-type]
        self.reach(target)
        if self.keys:
            self.screen.press("Enter")

    def use(self, key: str, name: str) -> None:
        """Do what a button does, or press the key that does the same."""
        if self.keys:
            self.screen.page.get_by_role("button", name=name).first.wait_for()
            self.screen.press(key)
        else:
            self.push(name)

    def write(self, label: str, text: str) -> None:
        """Write into a field."""
        self.reach(self.screen.page.get_by_label(label, exact=True).first)
        self.screen.press("Control+a")
        self.screen.page.keyboard.type(text)

    def edit(self, label: str, text: str) -> None:
        """Replace the text of an editor."""
        self.reach(self.screen.page.get_by_role("textbox", name=label))
        self.screen.press("Control+a")
        self.screen.page.keyboard.insert_text(text)
