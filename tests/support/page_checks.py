"""What is checked of every page of the dashboard: it stands still while it loads, it fits its window, it is not empty,
and axe-core finds nothing. A page of a wide window is also looked at in forced colours, and zoomed to 200 %.

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
_AXE = """() => axe.run(document, {
  resultTypes: ["violations"], preload: false, iframes: false, rules: { "target-size": { enabled: true } }
}).then((result) =>
  result.violations.map(({ id, nodes }) => ({ id, nodes: nodes.slice(0, 3).map((one) => one.html.slice(0, 200)) })))"""


# What a reader sees of an element besides its text. Forced colours take away what a page paints itself: grounds become
# the ground of the window, shadows vanish.
_LOOKS = """
  const clear = (colour) => /^rgba\\(.*, 0\\)$|^transparent$/.test(colour);
  const groundOf = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!clear(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const lines = (style, ground) =>
    ["border-top", "border-right", "border-bottom", "border-left", "outline"].map((line) => {
      const [width, kind, colour] = ["width", "style", "color"]
        .map((part) => style.getPropertyValue(`${line}-${part}`));
      return parseFloat(width) && kind !== "none" && !clear(colour) && colour !== ground
        ? `${width} ${kind} ${colour}` : "";
    });
  const lookOf = (element, pseudo) => {
    const style = getComputedStyle(element, pseudo);
    const ground = groundOf(pseudo ? element : element.parentElement);
    const paint = (colour) => (clear(colour) || colour === ground || colour === "none" ? "" : colour);
    const shape = element instanceof SVGGeometryElement
      ? [paint(style.fill), paint(style.stroke) && `${style.stroke} ${style.strokeWidth} ${style.strokeDasharray}`]
      : [];
    return [
      paint(style.backgroundColor),
      style.backgroundImage === "none" ? "" : style.backgroundImage,
      style.boxShadow === "none" ? "" : style.boxShadow,
      ...lines(style, ground), ...shape,
    ];
  };
  const marked = (element) => [element, ...element.children].map((one) => {
    const { fontWeight, textDecorationLine, color } = getComputedStyle(one);
    return [...lookOf(one), fontWeight, textDecorationLine, color];
  });
  const name = (element) => element.cloneNode(false).outerHTML.slice(0, 160);
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) &&
    element.getBoundingClientRect().height > 0;
  const textless = (element) => !element.textContent.trim() && !element.firstElementChild &&
    !/^(INPUT|SELECT|TEXTAREA|IMG|METER|PROGRESS|BR|HR)$/.test(element.tagName);
  // What says something without a word: an element, or what a style sheet puts before or after one.
  const silent = () => [...document.querySelectorAll("#app *")].filter(seen).flatMap((element) => [
    ...(textless(element) ? [[element]] : []),
    ...["::before", "::after"].filter((pseudo) => getComputedStyle(element, pseudo).content === '""')
      .map((pseudo) => [element, pseudo]),
  ]);
  const STATES = ["data-active", "aria-selected", "aria-current", "aria-pressed", "aria-expanded"];
  const CLASSES = ["active", "chosen", "hit", "current"];
  const states = () => [
    ...STATES.flatMap((state) => [...document.querySelectorAll(`[${state}]:not([${state}=false])`)]
      .filter(seen).map((element) => {
        const value = element.getAttribute(state);
        return [element, state, () => element.removeAttribute(state), () => element.setAttribute(state, value)];
      })),
    ...CLASSES.flatMap((state) => [...document.getElementsByClassName(state)].filter(seen).map((element) =>
      [element, `.${state}`, () => element.classList.remove(state), () => element.classList.add(state)])),
  ];
  const differs = ([element, , take, give]) => {
    const look = JSON.stringify(marked(element));
    take();
    const without = JSON.stringify(marked(element));
    give();
    return look !== without;
  };
"""

# Notes what is seen in the page's own colours. The colour of a skeleton or of a ground that holds text is decoration.
_BEFORE_FORCED = f"""() => {{
  {_LOOKS}
  window.functorySeen = {{
    silent: silent().filter((one) => lookOf(...one).some(Boolean)),
    states: states().filter(differs),
  }};
}}"""

# What of it is not seen any more, and what has the focus without showing it.
_IN_FORCED = f"""() => {{
  {_LOOKS}
  const found = [];
  const add = (what, element) => found.push(`${{what}}: ${{name(element)}}`);
  for (const one of window.functorySeen.silent)
    if (one[0].isConnected && !lookOf(...one).some(Boolean)) add(`not seen${{one[1] ?? ""}}`, one[0]);
  for (const state of window.functorySeen.states)
    if (state[0].isConnected && !differs(state)) add(`${{state[1]}} is not seen`, state[0]);
  for (const legend of document.querySelectorAll(".legend, .legend-line")) {{
    const looks = [...legend.children].map((key) => JSON.stringify(lookOf(key, "::before")));
    if (new Set(looks).size < looks.length) add("keys look the same", legend);
  }}
  const had = document.activeElement;
  const kinds = new Set();
  for (const element of document.querySelectorAll("a, button, input, select, textarea, summary, [tabindex='0']")) {{
    const kind = `${{element.tagName}} ${{element.className}} ${{element.type}}`;
    if (kinds.has(kind) || element.disabled || !seen(element)) continue;
    kinds.add(kind);
    document.activeElement?.blur();
    // Rows that the keys walk through show the focus in their place.
    const places = [element, element.parentElement, ...element.querySelectorAll(".active, [data-active]")];
    const before = JSON.stringify(places.map(marked));
    element.focus({{ preventScroll: true }});
    const inside = places.slice(2).some((one) => lookOf(one).slice(2).some(Boolean));
    if (document.activeElement === element && !inside && JSON.stringify(places.map(marked)) === before)
      add("its focus is not seen", element);
  }}
  document.activeElement?.blur();
  had?.focus({{ preventScroll: true }});
  return found;
}}"""

# Notes what can be pressed outside of tables, whose columns go one by one where there is no room.
_BEFORE_ZOOM = """() => {
  window.functoryControls = [...document.querySelectorAll(":is(main, header) :is(a, button, input, select, summary)")]
    .filter((one) => !one.closest(".table") && one.checkVisibility() && one.getBoundingClientRect().height > 0);
}"""

# What of it is not there any more. What the page has drawn anew meanwhile, such as a row that arrived, is another one.
_LOST = """() => window.functoryControls
  .filter((one) => one.isConnected && !(one.checkVisibility() && one.getBoundingClientRect().height > 0))
  .map((one) => `lost: ${one.outerHTML.slice(0, 160)}`)"""

# A control that cannot be reached by scrolling what is around it.
_OUT_OF_REACH = """() => {
  const found = [];
  const scrolls = (element, way) => {
    for (let at = element.parentElement; at; at = at.parentElement)
      if (/auto|scroll/.test(getComputedStyle(at)[`overflow${way}`])) return true;
    return false;
  };
  for (const one of document.querySelectorAll("a, button, input, select, textarea, summary")) {
    if (!one.checkVisibility() || one.className === "skip") continue;
    const { left, right, top, bottom, height } = one.getBoundingClientRect();
    if (!height) continue;
    const beside = (left < -1 || right > innerWidth + 1) && !scrolls(one, "X");
    const beyond = (top < -1 || bottom > innerHeight + 1) && !scrolls(one, "Y");
    if (beside || beyond) found.push(`out of reach: ${one.outerHTML.slice(0, 160)}`);
  }
  // What is higher than its box lies over what follows.
  for (const one of document.querySelectorAll("main *")) {
    const next = one.nextElementSibling;
    if (!(one instanceof HTMLElement) || !next || !one.checkVisibility() || !next.checkVisibility()) continue;
    if (one.scrollHeight <= one.clientHeight + 1 || !one.clientHeight) continue;
    if (getComputedStyle(one).overflowY !== "visible" || getComputedStyle(next).position !== "static") continue;
    const [box, after] = [one.getBoundingClientRect(), next.getBoundingClientRect()];
    if (after.height && after.top >= box.bottom - 1 && after.top < box.top + one.scrollHeight - 1 &&
        after.left < box.right && after.right > box.left)
      found.push(`it lies over what follows: ${one.cloneNode(false).outerHTML.slice(0, 160)}`);
  }
  const { top, bottom } = document.querySelector("main").getBoundingClientRect();
  const room = Math.min(bottom, innerHeight) - top;
  if (room < innerHeight / 2) found.push(`the page has ${room} of ${innerHeight} px`);
  return found;
}"""

_DEEP = "document.querySelector('main#page') && document.documentElement.scrollHeight - innerHeight"

# Two frames: what a page measures has been measured.
_DRAWN = (
    "() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(null))))"
)


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
    if deep := screen.page.evaluate(_DEEP):
        found.append(f"the document is {deep} px higher than the window, beside the page that scrolls")
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


def in_forced_colours(screen: Screen, looks: Callable[[str], None] | None = None) -> list[object]:
    """What is not seen in forced colours of what was seen in the page's own: marks without words, states, the focus."""
    # The focus is shown to those who use keys.
    screen.page.keyboard.press("Shift")
    screen.page.evaluate(_BEFORE_FORCED)
    screen.page.emulate_media(forced_colors="active")
    try:
        if looks:
            looks("forced")
        return [("forced colours", one) for one in screen.page.evaluate(_IN_FORCED)]
    finally:
        screen.page.emulate_media(forced_colors="none")


def zoomed(screen: Screen, looks: Callable[[str], None] | None = None) -> list[object]:
    """What does not fit or is lost when a browser zooms to 200 %: the window has half of its pixels each way."""
    size = screen.page.viewport_size
    assert size is not None
    screen.page.evaluate(_BEFORE_ZOOM)
    screen.page.set_viewport_size({"width": size["width"] // 2, "height": size["height"] // 2})
    try:
        screen.page.evaluate(_DRAWN)
        if looks:
            looks("zoomed")
        found = [*screen.page.evaluate(_OUT_OF_REACH)]
        if wide := screen.page.evaluate("document.documentElement.scrollWidth - innerWidth"):
            found.append(f"it is {wide} px too wide")
        found += screen.page.evaluate(_LOST)
        return [("200 %", one) for one in found]
    finally:
        screen.page.set_viewport_size(size)
