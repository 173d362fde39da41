"""What is checked of every page of the dashboard: it stands still while it loads, it fits its window, it is not empty,
and axe-core finds nothing.

The first answers of the API arrive late and in another order than they were asked for, as on a busy server: parts of
the page appear one after the other, and none may move what is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.support.dashboard import Screen

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
Theme = Literal["light", "dark"]
# The largest sum of layout shifts while a page loads.
SHIFT = 0.01

# Runs before the scripts of a page. The first request tells who is here: nothing is drawn without it.
_LATE_ANSWERS = """(() => {
  const fetch = window.fetch.bind(window);
  const late = [0, 90, 60, 30];
  let asked = 0;
  window.fetch = (...given) => {
    const wait = late[asked++] ?? 0;
    return wait ? new Promise((resolve) => setTimeout(resolve, wait)).then(() => fetch(...given)) : fetch(...given);
  };
})()"""

# The sum of the shifts, and what moved.
_SHIFTS = """() => new Promise((resolve) => {
  let sum = 0;
  const moved = [];
  const name = (node) => {
    const element = node?.nodeType === Node.TEXT_NODE ? node.parentElement : node;
    if (!element?.outerHTML) return "something that is gone";
    return element.outerHTML.slice(0, 120);
  };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      sum += entry.value;
      for (const { node, previousRect: from, currentRect: to } of entry.sources)
        moved.push(`${from.x},${from.y} ${from.width}x${from.height} -> ${to.x},${to.y} ${to.width}x${to.height} ` +
          name(node));
    }
  }).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => setTimeout(() => resolve({ sum, moved }), 50));
})"""

# Nothing is fetched for it, and the page has no frames.
_AXE = """() => axe.run(document, { resultTypes: ["violations"], preload: false, iframes: false }).then((result) =>
  result.violations.map(({ id, nodes }) => ({ id, nodes: nodes.slice(0, 3).map((one) => one.html.slice(0, 200)) })))"""


def prepare(context: BrowserContext) -> None:
    """Make the pages of a context ready to be checked, before they are opened."""
    context.add_init_script(_LATE_ANSWERS)
    context.add_init_script(path=AXE)


def problems(
    screen: Screen, themes: Sequence[Theme] = (), looks: Callable[[str], None] | None = None
) -> list[object]:
    """Everything that is wrong with a page that has loaded, in each of the themes; without any, in the one that it has.

    ``looks`` is called in each theme, for a picture.
    """
    found: list[object] = []
    words = screen.text().split()
    if len(words) < 3:
        found.append(f"it shows next to nothing: {words}")
    if wide := screen.page.evaluate("document.documentElement.scrollWidth - innerWidth"):
        found.append(f"it is {wide} px too wide")
    for theme in themes or (None,):
        if theme:
            screen.page.emulate_media(color_scheme=theme)
        found += [(theme, one["id"], *one["nodes"]) for one in screen.page.evaluate(_AXE)]
        if looks:
            looks(theme or "")
    # After axe-core, because late parts of a page are there by then.
    shifts = screen.page.evaluate(_SHIFTS)
    if shifts["sum"] > SHIFT:
        found.append((f"what was drawn moved by {shifts['sum']:.4f}", *shifts["moved"]))
    return found + screen.unexpected()
