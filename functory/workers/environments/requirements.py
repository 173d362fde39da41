"""Reads, normalises and checks the packages that a function needs. Pure: no process, no row, no file.

A *requirement* is a name with versions, extras and markers (PEP 508) and nothing else: no URL, no path,
no option. It is written again from its parsed parts before uv reads it, so that nothing else gets through. An *import*
means the distribution that provides it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from functory.engine.access.preload_grants import OWN, is_third_party, modules
from functory.engine.errors import Invalid, Refused

# Modules whose distribution has another name.
DISTRIBUTIONS = {
    "Crypto": "pycryptodome",
    "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "pygithub",
    "googleapiclient": "google-api-python-client",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "markdown_it": "markdown-it-py",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "re2": "google-re2",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "telegram": "python-telegram-bot",
    "umap": "umap-learn",
    "usb": "pyusb",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}

# Characters with a meaning in a requirements file: comment, continued line, environment variable.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f#$\\`]")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_]*[A-Za-z0-9])?")
_LOCKED = re.compile(r"([a-z0-9][a-z0-9.-]*)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")


@dataclass(frozen=True)
class Policy:
    """The packages that an environment may hold, and their number; names are normalised here."""

    allow: frozenset[str] | None
    deny: frozenset[str]
    count: int

    @classmethod
    def of(cls, allow: Iterable[str] | None, deny: Iterable[str], count: int) -> Policy:
        return cls(
            None if allow is None else frozenset(map(canonicalize_name, allow)),
            frozenset(map(canonicalize_name, deny)),
            count,
        )

    def check(self, names: Sequence[str]) -> None:
        """Raise :class:`Refused` for packages that are not allowed; ``names`` are normalised."""
        denied = sorted(set(names) & self.deny)
        if denied:
            raise Refused(
                f"no environment may hold {', '.join(denied)}",
                "packages_deny names it",
                "use another package, or ask the operator of this engine",
            )
        strange = sorted(set(names) - self.allow) if self.allow is not None else []
        if strange:
            raise Refused(
                f"{', '.join(strange)} may not be installed",
                "only what packages_allow names may be, dependencies included",
                "use another package, or ask the operator of this engine",
            )
        if len(set(names)) > self.count:
            raise Refused(
                f"the environment would hold {len(set(names))} packages", f"packages_count is {self.count}"
            )


def normalize_needs(requirements: Iterable[str], imports: Iterable[Any]) -> tuple[str, ...]:
    """The normalised requirements of both, sorted; a requirement replaces an import of the same distribution.

    Raises :class:`Invalid` for a text that is no requirement.
    """
    asked = [_read(text) for text in requirements]
    named = {canonicalize_name(requirement.name) for requirement in asked}
    found = {_normal(requirement) for requirement in asked}
    for item in imports:
        for distribution in _distributions(item):
            if canonicalize_name(distribution.name) not in named:
                found.add(_normal(distribution))
    return tuple(sorted(found))


def distribution_names(requirements: Iterable[str]) -> list[str]:
    """The normalised names of normalised requirements."""
    return [canonicalize_name(Requirement(text).name) for text in requirements]


def canonical(lock: str) -> str:
    """uv's lock with one sorted line a package, ``name==version --hash=…``: equal packages give equal text.

    Raises :class:`Refused` when it holds anything but pinned packages with hashes.
    """
    lines: list[str] = []
    for line in re.sub(r"\s*\\\n\s*", " ", lock).splitlines():
        if not line.strip():
            continue
        pinned = _LOCKED.fullmatch(line.strip())
        if pinned is None:
            raise Refused(
                "the packages cannot be pinned", f"uv answered {line.strip()[:200]!r}", "ask for it by name"
            )
        hashes = sorted(set(pinned[3].split()))
        lines.append(" ".join((f"{pinned[1]}=={pinned[2]}", *hashes)))
    return "".join(f"{line}\n" for line in sorted(lines))


def pinned(lock: str) -> list[tuple[str, str]]:
    """Name and version of each package of a canonical lock."""
    return [
        (name, version)
        for name, _, version in (line.split()[0].partition("==") for line in lock.splitlines())
    ]


def _read(text: str) -> Requirement:
    if _FORBIDDEN.search(text) or text.lstrip().startswith("-"):
        raise Invalid(
            f"wrong requirement {text!r}",
            "it must be one package with its versions, without options",
            '"pandas>=2,<3"',
        )
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise Invalid(f"wrong requirement {text!r}", str(error).split("\n")[0], '"pandas>=2,<3"') from None
    if requirement.url is not None:
        raise Invalid(
            f"wrong requirement {text!r}",
            "packages come from the index only, never from a URL, a path or a repository",
            f'"{requirement.name}"',
        )
    # Every child has Functory's own module; a distribution of that name must not replace it.
    if canonicalize_name(requirement.name) == OWN:
        raise Invalid(f"wrong requirement {text!r}", "every function has functory itself already")
    return requirement


def _normal(requirement: Requirement) -> str:
    extras = ",".join(sorted(map(canonicalize_name, requirement.extras)))
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{canonicalize_name(requirement.name)}{f'[{extras}]' if extras else ''}{requirement.specifier}{marker}"


def _distributions(item: Any) -> list[Requirement]:
    if isinstance(item, dict) and item.get("lib"):
        return [_read(item["lib"])] if any(map(is_third_party, modules(item))) else []
    tops = dict.fromkeys(module.partition(".")[0] for module in modules(item) if is_third_party(module))
    # A module name that no distribution can have (_private) fails when the function imports it.
    return [_read(DISTRIBUTIONS.get(top, top)) for top in tops if _NAME.fullmatch(top)]
