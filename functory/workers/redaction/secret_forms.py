"""The forms of a secret: its parts, and the texts into which programs turn them on the way into a log or a value.

A part is what code takes out of a secret: a line of a key file, a field of a JSON document, the password of a URL. A
form is a part as an encoding writes it: base64, hexadecimal, URLs, JSON, HTML, shell, Python, and pairs of them that
clients make (a JSON text inside base64, base64 inside a URL).
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote, urlsplit

from functory.engine.serialization.control_characters import escape_control_characters

# A shorter value occurs by chance: its replacement would damage ordinary output.
SHORTEST = 4
# Parts of a secret are looked for from this length on: many short ones are ordinary words.
SHORTEST_PART = 8
# Digits of a number that is looked for among JSON numbers.
SHORTEST_NUMBER = 6
# Values that are no secrets, whatever their names are.
ORDINARY = frozenset({"true", "false", "null", "none", "undefined"})

# Longer parts get the usual encodings only: all of them together would take megabytes.
_LONG = 512
# A line of this length is found as a piece of the text that it is a line of.
_LONG_LINE = 40
_MAX_PARTS = 500
# The first parts get all encodings: a document with hundreds of fields gets the usual ones for the others.
_MAX_FULL_PARTS = 50
_MAX_DEPTH = 4

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?[\w.-]+\s*[=:]\s*(.+)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[\d_]+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class Part(NamedTuple):
    """A part of a secret. ``whole`` means that only the whole part is secret: pieces of it are public."""

    text: str
    whole: bool = False


def parts(value: str) -> list[Part]:
    """The value and what code takes out of it. Empty for a value that is too short or too ordinary to be looked for."""
    if len(value.strip()) < SHORTEST or value.strip().casefold() in ORDINARY:
        return []
    found: dict[Part, None] = {}
    for part in _parts(value, 0):
        if part.text == value or part.text == value.strip() or len(part.text) >= SHORTEST_PART:
            found[part] = None
        if len(found) >= _MAX_PARTS:
            break
    return list(found)


def numbers(value: str) -> set[str]:
    """What ``int`` and ``float`` make of the parts of a value, as JSON; empty for texts and for short numbers."""
    return set().union(*(_numbers(part.text.strip()) for part in parts(value)))


def _numbers(text: str) -> set[str]:
    if not _NUMBER.fullmatch(text) or sum(map(str.isdigit, text)) < SHORTEST_NUMBER or len(text) > 400:
        return set()
    try:
        found = {repr(float(text))}
        if "." not in text and "e" not in text.lower():
            found.add(str(int(text)))
    except (ValueError, OverflowError):
        return set()
    return {number for number in found if number.lstrip("-")[:1].isdigit()}


def _parts(value: str, depth: int) -> Iterator[Part]:
    """The parts of a value, of its fields and of its lines."""
    text = value.strip()
    if url := _url_parts(text):
        yield Part(value, whole=True)
        yield from url
        return
    fields = _json_fields(text)
    if fields is not None:
        yield Part(value, whole=True)
        if depth < _MAX_DEPTH:
            for field in fields:
                if field.strip().casefold() not in ORDINARY:
                    yield from _parts(field, depth + 1)
        return
    yield Part(value)
    if text != value:
        yield Part(text)
    for number in sorted(_numbers(text)):
        yield Part(number)
    lines = [line.strip() for line in text.splitlines()]
    if depth < _MAX_DEPTH:
        if len(lines) > 1:
            for line in lines:
                if len(line) < _LONG_LINE or "=" in line or ":" in line:
                    yield from _parts(line, _MAX_DEPTH - 1)
        elif assigned := _ASSIGNMENT.fullmatch(text):
            yield from _parts(assigned[1].strip().strip("\"'"), depth + 1)


def _url_parts(text: str) -> list[Part]:
    """The secret parts of a URL: password, the values of its query, and what follows its host; empty for no URL."""
    if "://" not in text[:32] or len(text.split()) != 1:
        return []
    try:
        url = urlsplit(text)
        password = url.password
    except ValueError:
        return []
    found: list[Part] = []
    if password:
        user = url.netloc.rpartition("@")[0]
        found += [Part(password), Part(unquote(password)), Part(user), Part(unquote(user))]
    rest = text.partition("://")[2].partition("/")[2]
    found.append(Part(rest))
    for pair in url.query.split("&"):
        value = pair.partition("=")[2]
        found += [Part(value), Part(unquote(value))]
    return found


def _json_fields(text: str) -> list[str] | None:
    """The texts and numbers in a JSON object or list; None for another text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fields: list[str] = []
    waiting: list[Any] = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str | int | float) and not isinstance(item, bool):
            fields.append(str(item))
    return fields


def all_forms(value: str) -> Iterator[tuple[str, bool]]:
    """The forms of all parts of a value, and whether only the whole of a form is secret."""
    for place, part in enumerate(parts(value)):
        for form in forms(part.text, full=len(part.text) <= _LONG and place < _MAX_FULL_PARTS):
            yield form, part.whole


def forms(text: str, *, full: bool = True) -> set[str]:
    """The text itself and its encoded forms: the usual ones, or with ``full`` all of them and pairs of them."""
    raw = text.encode()
    found = {text, *_numbers(text.strip()), *_base64(raw)}
    if full:
        found |= {escape(text) for escape in _ESCAPES}
        found |= _hex(raw, _HEX_SEPARATORS) | _rare(text, raw) | _base64(text.encode("utf-16-le"))
        # Pairs of encodings that clients make: the inner ones of an HTTP body, a header, a template.
        inner = {escape(text) for escape in _USUAL_ESCAPES} | _base64_whole(raw)
        for once in inner - {text}:
            found |= {escape(once) for escape in _USUAL_ESCAPES}
            found |= _base64(once.encode())
    else:
        found |= {escape(text) for escape in _USUAL_ESCAPES}
        found |= _hex(raw, _HEX_SEPARATORS[:4]) | _base64(_json(text).encode())
    return found


def _base64(raw: bytes) -> set[str]:
    """Base64 of the bytes at each of the three places that they can have in a longer text, such as ``user:secret``."""
    found: set[str] = set()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        # Characters that also hold bits of what stands before or after are left out.
        first, last = (0, 2, 3)[before], (before + len(raw)) * 8 // 6
        for one in (text[first:last], text[first:]):
            found |= {one, one.replace("+", "-").replace("/", "_")}
    return found


def _base64_whole(raw: bytes) -> set[str]:
    return {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}


_HEX_SEPARATORS = ("", ":", "-", " ", "\\x", "\\\\x", ", 0x", ",0x", " 0x", "_", ", ")


def _hex(raw: bytes, separators: Sequence[str]) -> set[str]:
    """Hexadecimal, in both cases, together and separated."""
    pairs = [f"{byte:02x}" for byte in raw]
    upper = [pair.upper() for pair in pairs]
    return {join.join(digits) for join in separators for digits in (pairs, upper)}


def _rare(text: str, raw: bytes) -> set[str]:
    """Forms that only some programs write."""
    percent = "".join(f"%{byte:02X}" for byte in raw)
    decimal = [str(byte) for byte in raw]
    found = {percent, percent.lower(), *(join.join(decimal) for join in (", ", ",", " ", "\n"))}
    utf16 = [unit for character in text for unit in _utf16(character)]
    for letter in ("\\u{:04x}", "\\u{:04X}", "%u{:04X}"):
        found.add("".join(letter.format(unit) for unit in utf16))
    for reference in ("&#{};", "&#{:03};", "&#x{:x};", "&#x{:X};"):
        found.add("".join(reference.format(ord(character)) for character in text))
    found |= {base64.b32encode(raw).decode().rstrip("="), base64.b32encode(raw).decode().rstrip("=").lower()}
    found |= {base64.b85encode(raw).decode(), base64.a85encode(raw).decode()}
    if len(text) >= SHORTEST_PART:
        found |= {text.upper(), text.lower()}
    return found


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[place : place + 2], "big") for place in range(0, len(raw), 2)]


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _lower_escapes(encoded: str) -> str:
    return re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)


def _shell_quoted(text: str) -> str:
    quoted = shlex.quote(text)
    return quoted[1:-1] if quoted != text else text


def _html_json(text: str) -> str:
    """JSON that may stand in HTML: the default of Go and of many templates."""
    return re.sub("[<>&'=/+\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", _json(text))


def _go_json(text: str) -> str:
    return re.sub(
        "[<>&\u2028\u2029]",
        lambda found: f"\\u{ord(found[0]):04x}",
        json.dumps(text, ensure_ascii=False)[1:-1],
    )


# What is done most often to a text on its way out.
_USUAL_ESCAPES: tuple[Callable[[str], str], ...] = (
    _json,
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: _json(text).replace("/", "\\/"),
    lambda text: quote(text, safe=""),
    lambda text: _lower_escapes(quote(text, safe="")),
    quote_plus,
    html.escape,
    lambda text: repr(text)[1:-1],
)
_ESCAPES: tuple[Callable[[str], str], ...] = (
    *_USUAL_ESCAPES,
    quote,
    lambda text: _lower_escapes(quote_plus(text)),
    lambda text: quote(text, safe="!$&'()*+,;=:@/?-._~"),
    _html_json,
    lambda text: re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), _html_json(text)),
    _go_json,
    lambda text: re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), _json(text)),
    lambda text: html.escape(text, quote=False),
    lambda text: html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    lambda text: html.escape(text).replace("&#x27;", "&apos;"),
    lambda text: html.escape(text).replace("&#x27;", "&#039;").replace("/", "&#x2F;"),
    lambda text: repr(text + "'")[1:-2] if '"' not in text else repr(text)[1:-1],
    lambda text: repr(text).replace('"', '\\"')[1:-1],
    lambda text: ascii(text)[1:-1],
    lambda text: repr(text.encode())[2:-1],
    lambda text: text.encode("unicode_escape").decode(),
    _shell_quoted,
    lambda text: text.replace("'", "'\\''"),
    lambda text: re.sub(r"([^\w@%+=:,./-])", r"\\\1", text),
    lambda text: re.sub(r"([\\\"$`])", r"\\\1", text),
    lambda text: text.replace("'", "''"),
    lambda text: text.replace('"', '""'),
    re.escape,
    lambda text: text.replace("\\", "\\\\"),
    lambda text: text.replace("\n", "\\n"),
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "".join(text.splitlines()),
    lambda text: " ".join(text.split()),
    lambda text: text.replace("=", "=3D"),
    escape_control_characters,
)  # fmt: skip
