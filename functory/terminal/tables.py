"""Tables on a terminal: columns side by side, or one block a row where the terminal is too narrow for whole words.

No word, name or id is broken, so that it can be read and copied. Only a word that no line would hold, such as a long
path in an error, is folded in a column of texts. Rich is imported only here, when something is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# Columns that become narrower last, and are never folded, because people copy what is in them.
_COPIED = ("id", "name", "event", "execution", "key", "address", "url", "root", "run")

# Widths, in characters, of a table that is too wide for its terminal. A column up to _SHORT wide holds a number, a
# state or a time. _ROOMY leaves a text readable. A longer word than _WORD is one that is folded.
_SHORT, _ROOMY, _WORD = 20, 16, 40
_GAP = 2


def draw(
    console: Console,
    columns: Mapping[str, str],
    cells: Sequence[Sequence[str]],
    *,
    numbers: Sequence[bool],
    style: Callable[[str], str],
) -> None:
    """Draw rows of cells. ``columns`` maps a field to its heading; columns of ``numbers`` are set to the right."""
    titles = [*columns.values()]
    copied = [name.lower() in _COPIED or name.lower().endswith("_id") for name in columns]
    widths = column_widths([*zip(titles, *cells, strict=True)], copied, console.width)
    if widths is None:
        _draw_blocks(console, titles, cells, style)
        return
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for title, width, is_number in zip(titles, widths, numbers, strict=True):
        drawn.add_column(title, width=width, overflow="fold", justify="right" if is_number else "left")
    for line in cells:
        drawn.add_row(*(Text(cell, style(cell)) for cell in line))
    console.print(drawn)


def column_widths(
    columns: Sequence[Sequence[str]], copied: Sequence[bool], terminal: int
) -> list[int] | None:
    """Return the width of each column of a table, in characters, for a terminal of ``terminal`` characters; None where
    words would have to be broken.

    A column has its heading and its cells. A column as wide as its longest cell does not wrap. Where the terminal
    has no room for that, long texts become narrower first, then times, and columns that people copy from last.
    """
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in columns]
    words = [max(cell_len(word) for cell in cells for word in cell.split() or [""]) for cells in columns]
    least = [
        _ROOMY if word > _WORD and not is_copied else word
        for word, is_copied in zip(words, copied, strict=True)
    ]
    long = [width > _SHORT for width in widths]
    places = range(len(columns))
    texts = [place for place in places if not copied[place]]
    room = terminal - _GAP * len(columns)
    # Which columns become narrower together, the widest first, and how narrow.
    for narrowed, lowest in (
        ([place for place in texts if long[place]], [max(_ROOMY, one) for one in least]),
        ([place for place in texts if not long[place]], least),
        ([place for place in places if copied[place]], [max(_SHORT, one) for one in least]),
        (places, least),
    ):
        while sum(widths) > room:
            wider = [place for place in narrowed if widths[place] > lowest[place]]
            if not wider:
                break
            widths[max(wider, key=widths.__getitem__)] -= 1
    return widths if sum(widths) <= room else None


def _draw_blocks(
    console: Console, titles: Sequence[str], cells: Sequence[Sequence[str]], style: Callable[[str], str]
) -> None:
    """Draw one block a row: each heading with its cell, without the empty ones."""
    from rich.text import Text

    label = max(map(len, titles)) + _GAP
    for number, line in enumerate(cells):
        if number:
            console.print()
        for title, cell in zip(titles, line, strict=True):
            for part, text in enumerate(wrapped(cell, console.width - label)):
                parts = (f"{title if not part else '':<{label}}", "bold"), (text, style(cell))
                console.print(Text.assemble(*parts), soft_wrap=True)


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken at spaces alone: a longer word has a line of its own. None for no text."""
    from rich.cells import cell_len

    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
