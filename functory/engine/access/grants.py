"""Grants: what a version may use beyond plain computation (secrets, hosts, files, permissions, programs, preloads).

An author *declares* what a version needs. Kinds that the operator lets authors grant (setting ``author_grants``) take
effect at once. The rest is *pending* until an operator allows it for exactly this content
(:mod:`functory.engine.functions.grant_approvals`). The functions that are linked into one execution share a process,
and so their grants. Pure: no database access.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from functory.engine.access import host_grants, path_grants, preload_grants
from functory.engine.errors import Invalid
from functory.engine.names import NAME
from functory.engine.settings import Settings

KINDS = ("secret", "host", "model", "read", "write", "permission", "preload", "subprocess")
# What code may do. Without a preload it does the same, and takes longer: its packages are imported by each execution.
RIGHTS = frozenset(KINDS) - {"preload"}
PERMISSIONS = (
    "functions:describe",
    "functions:propose",
    "functions:read",
    "functions:write",
    "memory:read",
    "memory:write",
)
# What code needs for an operation on stored functions (functory.functions).
PERMISSION_OF = {
    **dict.fromkeys(("get", "list", "versions"), "functions:read"),
    **dict.fromkeys(("save", "update", "activate", "rollback"), "functions:write"),
    **dict.fromkeys(("propose", "proposal"), "functions:propose"),
    "describe": "functions:describe",
}
# The kinds that authors may grant on a shared server; only an operator grants files and programs of a machine, and
# imports by the process that starts executions.
SERVER_AUTHOR_GRANTS = frozenset({"secret", "host", "model", "permission"})

FIELDS = ("hosts", "models", "files", "subprocess")
# Each host is a rule for each connection to be checked against, and each path is a mount of each zygote.
MAX_ENTRIES = 100

# The field of the JSON record that holds each kind.
_PLACES = {
    "secret": "secrets",
    "host": "hosts",
    "model": "models",
    "read": "read",
    "write": "write",
    "permission": "permissions",
    "preload": "preload",
}


@dataclass(frozen=True)
class Grants:
    """A set of grants.

    Hosts are written as :mod:`functory.engine.access.host_grants` reads them. ``models`` are names of language models;
    ``*`` is every one. ``read`` and ``write`` hold absolute
    paths, ``preload`` the modules of packages that may be imported ahead. ``subprocess`` is the right to start
    programs.
    """

    secrets: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    subprocess: bool = False

    @classmethod
    def from_items(cls, items: Iterable[tuple[str, str]]) -> Grants:
        """Make the set of these (kind, value) pairs."""
        found: dict[str, set[str]] = {}
        for kind, value in items:
            found.setdefault(kind, set()).add(value)
        listed = {place: tuple(sorted(found.get(kind, ()))) for kind, place in _PLACES.items()}
        return cls(**listed, subprocess="subprocess" in found)

    @classmethod
    def declared(
        cls,
        asked: Mapping[str, Any],
        secrets: Iterable[str],
        permissions: Iterable[str],
        imports: Iterable[Any] = (),
    ) -> Grants:
        """Return the grants that a version declares: what it has ``asked`` for (:func:`parse_declared`), its secrets
        and permissions, and its declared ``imports``, which are preloads.
        """
        preload = tuple(sorted(preload_grants.package_modules(imports)))
        if not (asked or secrets or permissions or preload):
            return NOTHING
        files = asked.get("files", {})
        return cls(
            secrets=tuple(sorted(secrets)),
            hosts=tuple(asked.get("hosts", ())),
            models=tuple(asked.get("models", ())),
            read=tuple(files.get("read", ())),
            write=tuple(files.get("write", ())),
            permissions=tuple(sorted(permissions)),
            preload=preload,
            subprocess=asked.get("subprocess", False),
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Grants:
        """Read what :meth:`as_json` made; an empty set for None."""
        given = value or {}
        listed = {place: tuple(given.get(place, ())) for place in _PLACES.values()}
        return cls(**listed, subprocess=given.get("subprocess", False))

    def as_json(self) -> dict[str, Any]:
        """Return the non-empty kinds as JSON values."""
        listed = {place: list(getattr(self, place)) for place in _PLACES.values()}
        return {name: value for name, value in (listed | {"subprocess": self.subprocess}).items() if value}

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield (kind, value) pairs in the order of the kinds; the value of ``subprocess`` is empty."""
        for kind, place in _PLACES.items():
            for value in getattr(self, place):
                yield kind, value
        if self.subprocess:
            yield "subprocess", ""

    def __iter__(self) -> Iterator[str]:
        """Yield each grant in the form that the command line takes: ``host api.example.com``."""
        return (f"{kind} {value}".rstrip() for kind, value in self.items())

    def __bool__(self) -> bool:
        return self != NOTHING

    def __or__(self, other: Grants) -> Grants:
        if not other or self == other:
            return self
        return Grants.from_items(chain(self.items(), other.items())) if self else other

    def allows_model(self, name: str) -> bool:
        """Whether a language model may be asked."""
        return name in self.models or ANY_MODEL in self.models

    def only(self, kinds: Collection[str]) -> Grants:
        """Return the grants of these kinds."""
        return (
            Grants.from_items((kind, value) for kind, value in self.items() if kind in kinds)
            if self
            else self
        )

    def covers(self, other: Grants) -> bool:
        """Whether this set allows everything that ``other`` allows."""
        return not self.missing(other)

    def missing(self, other: Grants) -> Grants:
        """Return the grants that ``other`` allows and this set does not."""
        tests: dict[str, Callable[[str], bool]] = {
            "secret": lambda name: name in self.secrets,
            "host": lambda text: any(_host_covers(granted, text) for granted in self.hosts),
            "model": self.allows_model,
            # A path that may be written is mounted to be read as well.
            "read": lambda path: path_grants.inside(path, (*self.read, *self.write)),
            "write": lambda path: path_grants.inside(path, self.write),
            "permission": lambda name: name in self.permissions,
            "preload": lambda module: module in self.preload,
            "subprocess": lambda _: self.subprocess,
        }
        return Grants.from_items((kind, value) for kind, value in other.items() if not tests[kind](value))


NOTHING = Grants()
ANY_MODEL = "*"
_MEANWHILE = {"preload": " (until then each execution imports it itself, which takes longer)"}


def author_grant_kinds(settings: Settings) -> frozenset[str]:
    """Return the kinds that take effect as authors declare them."""
    if settings.author_grants is not None:
        return frozenset(settings.author_grants)
    return frozenset(KINDS) if settings.embedded else SERVER_AUTHOR_GRANTS


def effective(declared: Grants, kinds: Collection[str], approved: Grants = NOTHING) -> Grants:
    """Return the grants of a version that take effect: those that its author may give, and those that an operator
    allowed.
    """
    return declared.only(kinds) | approved


def pending(declared: Grants, kinds: Collection[str], approved: Grants = NOTHING) -> Grants:
    """Return the declared grants that wait for an operator."""
    return effective(declared, kinds, approved).missing(declared)


def allow_command(function: str, number: int, kind: str, value: str) -> str:
    """Return the command that allows a grant."""
    return f'functory grant allow {function}@{number} {f"{kind} {value}".rstrip()} --reason "…"'


def warnings(function: str, number: int, waiting: Grants) -> list[str]:
    """Return the warnings for the author of a saved version: one line for each grant that waits for approval."""
    return [
        f"{f'{kind} {value}'.rstrip()} waits for an operator{_MEANWHILE.get(kind, '')}: "
        f"{allow_command(function, number, kind, value)}"
        for kind, value in waiting.items()
    ]


def parse_declared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the declared ``hosts``, ``models``, ``files`` and ``subprocess``, and return them in one plain form.

    Raises :class:`Invalid`.
    """
    result: dict[str, Any] = {}
    if "hosts" in given:
        listed = _texts(given["hosts"], "hosts", 'hosts=["api.example.com"]')
        result["hosts"] = sorted({str(host_grants.parse(host)) for host in listed})
    if "models" in given:
        listed = _texts(given["models"], "models", 'models=["small"]')
        result["models"] = sorted({normalize_value("model", name) for name in listed})
    if "files" in given:
        files = {} if given["files"] is None else given["files"]
        example = 'files={"read": ["/data"]}'
        if not isinstance(files, Mapping) or set(files) - {"read", "write"}:
            raise Invalid(
                f"wrong files={_short(files)}", "it must name the paths to read and to write", example
            )
        checked = {
            mode: sorted(
                {path_grants.check(mode, path) for path in _texts(files[mode], f"files {mode}", example)}
            )
            for mode in sorted(files)
        }
        result["files"] = {mode: found for mode, found in checked.items() if found}
    if "subprocess" in given:
        if not isinstance(given["subprocess"], bool):
            raise Invalid(f"wrong subprocess={_short(given['subprocess'])}", "it must be True or False")
        result["subprocess"] = given["subprocess"]
    return result


def normalize_value(kind: str, value: str) -> str:
    """Return a grant's value in the form that is stored. Raises :class:`Invalid` for a wrong kind or value."""
    if kind not in KINDS:
        raise Invalid(f"there is no kind of grant called {_short(kind)}", "the kinds are " + ", ".join(KINDS))
    if not isinstance(value, str):
        raise Invalid(f"wrong {kind} {_short(value)}", "it must be a text")
    match kind:
        case "subprocess":
            if value:
                raise Invalid(
                    f"a grant of subprocess has no value, got {_short(value)}",
                    "it is the right to start programs",
                )
        case "host":
            return str(host_grants.parse(value))
        case "read" | "write":
            return path_grants.check(kind, value)
        case "preload":
            return preload_grants.check(value)
        case "model":
            if value != ANY_MODEL and not NAME.fullmatch(value.replace("-", "_").replace(".", "_")):
                raise Invalid(
                    f"{_short(value)} is not a model name",
                    "letters, digits, _, - and . only; * is every model",
                )
        case "permission":
            if value not in PERMISSIONS:
                raise Invalid(
                    f"there is no permission {_short(value)}", "the permissions are " + ", ".join(PERMISSIONS)
                )
        case "secret":
            if not NAME.fullmatch(value):
                raise Invalid(
                    f"{_short(value)} is not a secret name",
                    "letters, digits and _ only, for example API_KEY",
                )
    return value


def _host_covers(granted: str, wanted: str) -> bool:
    """Return True when one host grant allows everything that another one allows."""
    have, want = host_grants.parse(granted), host_grants.parse(wanted)
    if not set(want.ports) <= set(have.ports):
        return False
    if have.name == want.name:
        return True
    if have.is_any_host:
        # ``*`` means public hosts only, and a name may resolve to a private one.
        return _is_public(want.name)
    if want.name.startswith("*."):
        return have.name.startswith("*.") and want.name.endswith(have.name[1:])
    return not want.is_any_host and all(have.covers(want.name, port) for port in want.ports)


def _is_public(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_global
    except ValueError:
        return False


def _texts(value: Any, what: str, example: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        raise Invalid(f"wrong {what}={_short(value)}", "it must be a list of texts", example)
    if len(value) > MAX_ENTRIES:
        raise Invalid(f"too many {what}: {len(value):,}", f"a version declares at most {MAX_ENTRIES}")
    listed = list(value)
    wrong = next((item for item in listed if not isinstance(item, str)), None)
    if wrong is not None or None in listed:
        raise Invalid(f"wrong {what}: it holds {_short(wrong)}", "it must be a list of texts", example)
    return listed


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
