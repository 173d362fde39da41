"""Every command that a text names (advice, help, docstring, page) is one that the command line takes."""

import functools
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from functory.cli import application, command_index
from tests.support.product_texts import VALUE, all_texts

# Words with which the sentence around a command goes on.
PROSE = frozenset(
    """a accept adds after also and are as asks at beside but can checks closes compares could creates do does else end
    ends exists explains finds for from gives has have holds if in includes installs is it its itself keeps knows lets
    lists makes means must names needs now of on once or prints raises reads refuses removes reports runs said says
    sends shows so starts stops takes that the them then they this to until waits when where which while will with
    without works would writes you""".split()  # noqa: SIM905 - a word list is read as text
)
# What a reader fills in where an example would need a value.
METAVARS = frozenset(("N", "…"))
# The first word of a sentence.
_SENTENCE = r"[A-Z][a-z]+"
_START = re.compile(r"(?<![\w./-])(?<!from )functory(?= [a-z-])")
_WORD = re.compile(r""" (?!\d>)((?:'[^'\n]*'|"[^"\n]*"|[^\s'"`;|()<>·])+)""")


_load = functools.cache(application.load_command)


def named_commands(text: str) -> Iterator[list[str]]:
    """The words of each command line in a text, without the sentence around it."""
    for found in _START.finditer(text):
        words: list[str] = []
        at = found.end()
        while word := _WORD.match(text, at):
            plain = re.sub(r'[,.:]+("")?$', "", word[1])
            value = bool(words) and words[-1].startswith("-")
            if (
                plain in PROSE
                or plain in ("", "/", "&&", "→", "—")
                or (not value and re.fullmatch(_SENTENCE, plain))
            ):
                break
            at = word.end()
            if plain == "…" and not value:
                continue
            words.append(plain)
            if plain != word[1]:
                break
        if words and re.fullmatch(r"[a-z-]+", words[0]):
            yield [VALUE if part in METAVARS else part for part in shlex.split(" ".join(words))]


def fault_of(words: list[str], *, advice: bool = True) -> str:
    """Why the command line does not take a command; empty when it does.

    A command without arguments is only named. A page or a docstring (no ``advice``) may leave some arguments out.
    """
    name, *rest = words
    verb = ""
    if name.startswith("--") or name in ("help", "version"):
        return ""
    entry = command_index.find(name)
    if entry is None:
        return f"there is no command {name}"
    command: Any = _load(entry)
    while hasattr(command, "commands"):
        if not rest or rest[0] == "--help":
            return ""
        # An address may stand in the place of a verb.
        verb, *rest = getattr(command, "with_verb", list)(rest)
        if verb not in command.commands:
            return f"{name} has no verb {verb}"
        command = command.commands[verb]
    if not rest or "--help" in rest:
        return ""
    if (name, verb) == ("function", "activate") and "@" not in rest[0] and not rest[1:]:
        return "it has no version"
    try:
        command.make_context(name, list(rest))
    except application.UsageError as error:
        if advice or type(error).__name__ != "MissingParameter":
            return error.format_message()
    return ""


def test_every_command_that_a_text_names_is_taken() -> None:
    wrong, seen = [], 0
    for place, text, shown in all_texts():
        for words in named_commands(text):
            seen += 1
            if fault := fault_of(words, advice=shown):
                wrong.append(f"{place}: functory {shlex.join(words)}: {fault}")
    assert seen > 400
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("try: functory function ad FILE", "function has no verb ad"),
        ("or `functory functoin list`", "there is no command functoin"),
        ("see functory event list --stat pending, or wait", "No such option: --stat"),
        ("functory secret set", ""),
        ("functory schedule next nightly -n many", "Invalid value for '-n'"),
        ("functory grant allow fetch@3; it takes effect at once", "Missing argument 'kind'"),
        ("""functory event emit a.b --data '{"x": "a; b, c"}' writes one""", ""),
    ],
)  # fmt: skip
def test_a_wrong_command_in_a_text_is_seen(text: str, fault: str) -> None:
    (words,) = named_commands(text)
    assert fault_of(words).startswith(fault) and bool(fault_of(words)) == bool(fault)
