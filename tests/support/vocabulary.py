"""Finds the words that docs/explanation/glossary.md replaces: ``python -m tests.support.vocabulary``.

The page's last two sections list them. Words of code are searched in identifiers, as parts of CamelCase and
snake_case names too. Words of texts are searched in docstrings, comments, messages and pages. The exit status is 1
when a word is found.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"
CODE = "## Words of code that are not used"
TEXTS = "## Words of texts that are not used"

# The field's own terms that contain a word which is replaced elsewhere.
ALLOWED = re.compile(
    r"dead[ -]letters?|letters(,| and| or) digits|of letters,|(lower-case|upper-case|ASCII|Latin) letters?",
    re.IGNORECASE,
)
# The changelog describes history. The glossary and this check list the words.
LEFT_OUT = (
    "tests/data/",
    "CHANGELOG.md",
    "docs/explanation/glossary.md",
    "tests/support/vocabulary.py",
    "tests/unit/docs/test_vocabulary.py",
)

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Use:
    """One use of a replaced word: `path:line`, the word, and what to write for it."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r} is not in the glossary / try: {self.instead}"


def replaced(section: str) -> dict[str, str]:
    """The words of one section of the glossary, each with what is written for it."""
    rows = GLOSSARY.read_text().partition(section)[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")]
    return {word.strip(): instead for words, instead in cells[2:] for word in words.split(",")}


def in_text(text: str, words: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """(line, word, instead) for each replaced word of a text, whatever its case and line breaks."""
    text = ALLOWED.sub(lambda found: "x" * len(found[0]), text)
    pattern = re.compile(
        r"\b(" + "|".join(word.replace(" ", r"\s+") for word in words) + r")\b", re.IGNORECASE
    )
    for found in pattern.finditer(text):
        word = " ".join(found[0].lower().split())
        yield text.count("\n", 0, found.start()) + 1, word, words[word]


def in_python(source: str, code: dict[str, str], texts: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """The same for Python: identifiers against `code`, strings and comments against both."""
    prose = texts | code
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            for part in _PART.findall(token.string):
                if part.lower() in code:
                    yield token.start[0], part.lower(), code[part.lower()]
        elif token.type in (tokenize.STRING, tokenize.COMMENT) or "FSTRING" in tokenize.tok_name[token.type]:
            for line, word, instead in in_text(token.string, prose):
                yield token.start[0] + line - 1, word, instead


def files() -> Iterator[Path]:
    """The checked files: the product, its tests, benchmarks and examples, and the pages."""
    for folder, pattern in (
        ("functory", "*.py"),
        ("tests", "*.py"),
        ("benchmarks", "*.py"),
        ("examples", "*.py"),
        ("docs", "*.md"),
        (".", "*.md"),
    ):
        found = (ROOT / folder).glob(pattern) if folder == "." else (ROOT / folder).rglob(pattern)
        yield from (path for path in sorted(found) if not str(path.relative_to(ROOT)).startswith(LEFT_OUT))


def uses() -> list[Use]:
    """Every use of a replaced word in the repository."""
    code, texts = replaced(CODE), replaced(TEXTS)
    found = []
    for path in files():
        text = path.read_text()
        hits = in_python(text, code, texts) if path.suffix == ".py" else in_text(text, texts | code)
        found += [Use(str(path.relative_to(ROOT)), *hit) for hit in hits]
    return found


if __name__ == "__main__":
    problems = uses()
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
