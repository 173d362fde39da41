"""A Python action of a pack as a function: its metadata read, its files kept as modules, its parameters declared."""

from __future__ import annotations

import keyword
import posixpath
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functory.packs.stackstorm import source
from functory.packs.stackstorm.action_shim import shim_source
from functory.packs.stackstorm.folder import Folder
from functory.packs.stackstorm.report import Entry, LeftOut
from functory.packs.stackstorm.requirements import PackRequirements

# Seconds that a python-script action may run when its metadata has no limit.
TIMEOUT = 600
# Parameters of the runner, not of the action.
_RUNNER = frozenset({"env", "timeout", "debug", "log_level", "content_version"})

_INSTEAD = {
    "orquesta": "write the steps as functions that call each other",
    "mistral-v2": "write the steps as functions that call each other",
    "action-chain": "write the steps as functions that call each other",
    "local-shell-cmd": "write a function that uses subprocess, and give it the permission it needs",
    "local-shell-script": "write a function that uses subprocess, and give it the permission it needs",
    "remote-shell-cmd": "write a function that uses an SSH library",
    "remote-shell-script": "write a function that uses an SSH library",
    "http-request": "write a function that uses httpx",
    "announcement": "write a function that emits an event",
    "inquirer": "there are no questions to people yet",
    "noop": "leave it out",
}

_BOUNDS = frozenset({"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"})
_KEYWORDS = frozenset({"type", "enum", "description", "default"}) | _BOUNDS
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_JINJA = re.compile(r"\{\{|\{%")
# Names that the function's source uses itself.
_OWN_NAMES = frozenset({"StackStorm", source.ENTRY})
_CONFIG = re.compile(r"\{\{\s*config_context\.([A-Za-z_]\w*)\s*\}\}")


@dataclass(frozen=True)
class PackSettings:
    """What the actions of one pack share: values of the configuration, the names of the secrets of its secret keys,
    packages.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    requirements: PackRequirements = field(default_factory=PackRequirements)
    missing: frozenset[str] = frozenset()
    """Keys that must have a value and have none."""
    hosts: tuple[str, ...] = ()
    """Hosts that all functions of the pack may connect to."""


@dataclass(frozen=True)
class _Parameter:
    name: str
    required: bool
    schema: Mapping[str, Any]
    default: Any = None
    config: str | None = None


def read_action(
    folder: Folder, entry: Entry, metadata: Mapping[str, Any], name: str, settings: PackSettings
) -> None:
    """Fill ``entry`` with the function that the action described in ``metadata`` becomes. Raises :class:`LeftOut`."""
    runner = metadata.get("runner_type")
    if runner != "python-script":
        raise LeftOut(
            f"it runs with {runner}; only python-script actions become functions",
            _INSTEAD.get(str(runner), "write a function that does the same"),
        )
    entry_point = metadata.get("entry_point")
    if not isinstance(entry_point, str) or not entry_point.endswith(".py"):
        raise LeftOut(f"its entry_point is {entry_point!r}", "name the Python file")
    found = source.collect_source(folder, posixpath.normpath(posixpath.join("actions", entry_point)))
    notes = entry.notes
    given = metadata.get("parameters") or {}
    if not isinstance(given, Mapping):
        raise LeftOut("its parameters are not an object", "write name: {type: …}")
    parameters, fixed = _parameters(given, notes)
    secrets = {key: secret for key, secret in settings.secrets.items() if key in found.texts}
    signature = f"def {name}({', '.join(_signature(parameters))}):"
    body = textwrap.indent(_body(metadata, found.action_class, parameters, fixed), "    ")
    shim = shim_source(settings.values, secrets)
    text = f"import {source.ENTRY}\n\n{shim}\n\n{signature}\n{body}\n"
    notes += found.notes
    _add_needs(entry, found, name, settings)
    entry.requirement_sets = settings.requirements.sets_for(found.packages)
    entry.function = {
        "text": text,
        "name": name,
        "modules": found.modules,
        "hosts": list(settings.hosts),
        "input_parameters": _schema(parameters),
        "limits": {"timeout": _timeout(given, metadata, notes)},
        "metadata": {
            "stackstorm": {
                "action": f"{metadata.get('pack', '')}.{metadata.get('name', '')}".lstrip("."),
                "file": entry.file,
            }
        },
        "secrets": sorted(secrets.values()),
    }
    if isinstance(metadata.get("description"), str):
        entry.function["metadata"]["description"] = metadata["description"]


def _add_needs(entry: Entry, found: source.ActionSource, name: str, settings: PackSettings) -> None:
    """Add what the files of an action show that it needs beyond packages and secrets."""
    if source.uses_datastore(found):
        entry.notes.append(
            "values of the datastore are kept in the function's own state; other functions do not see them"
        )
    written = {"set_value", "delete_value"} & found.attributes
    for key in sorted(found.values if not written else ()):
        entry.need("state", key, f"the value {key} in its state", f"functory state set {name} {key} VALUE")
    for key in sorted(settings.missing & found.texts):
        entry.need(
            "config", key, f"a value of {key} in the pack's configuration", "--config FILE.yaml at the import"
        )
    if "network" in found.capabilities and not settings.hosts:
        need_hosts(entry, name)
    if "subprocess" in found.capabilities:
        entry.need(
            "subprocess",
            "",
            "the right to start programs",
            f'functory grant allow {name} subprocess --reason "…"',
        )


def need_hosts(entry: Entry, name: str) -> None:
    """Record that the function ``name`` connects to hosts that are not known here."""
    entry.need(
        "host",
        "",
        "the hosts that it connects to",
        f'functory grant allow {name} host HOST --reason "…", or --host HOST at the import',
    )


def _parameters(given: Mapping[str, Any], notes: list[str]) -> tuple[list[_Parameter], dict[str, Any]]:
    read: list[tuple[bool, int, _Parameter]] = []
    fixed: dict[str, Any] = {}
    for name, described in given.items():
        if name in _RUNNER:
            continue
        if not isinstance(described, Mapping):
            raise LeftOut(f"its parameter {name} is not an object", "write name: {type: …}")
        if not name.isidentifier() or keyword.iskeyword(name) or name in _OWN_NAMES:
            raise LeftOut(
                f"its parameter {name} cannot be a parameter in Python here", "rename it in the pack"
            )
        default, config = described.get("default"), None
        if isinstance(default, str) and _JINJA.search(default):
            if (match := _CONFIG.fullmatch(default.strip())) is None:
                notes.append(f"the default of {name}, {default[:60]}, is a template: it has none here")
            else:
                config = match[1]
            default = None
        if described.get("immutable") is True and config is None:
            fixed[name] = default
            continue
        if described.get("secret") is True:
            notes.append(
                f"{name} is marked secret: an execution's input is stored as it is, so use a secret instead"
            )
        required = described.get("required") is True and default is None and config is None
        parameter = _Parameter(name, required, _property(described, nullable=not required), default, config)
        position = described.get("position")
        read.append((not required, position if isinstance(position, int) else 1000, parameter))
    return [parameter for *_, parameter in sorted(read, key=lambda item: item[:2])], fixed


def _property(described: Mapping[str, Any], *, nullable: bool) -> dict[str, Any]:
    """Translate a schema of draft 3 or 4 to a current one: ``required`` of a member moves to its object."""
    schema = {key: value for key, value in described.items() if key in _KEYWORDS}
    if isinstance(schema.get("default"), str) and _JINJA.search(schema["default"]):
        del schema["default"]
    kinds = schema.pop("type", None)
    listed = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind in _TYPES]
    if listed:
        schema["type"] = [*listed, "null"] if nullable and "null" not in listed else listed
        if len(schema["type"]) == 1:
            schema["type"] = listed[0]
    if isinstance(schema.get("enum"), list) and nullable:
        schema["enum"] = [*schema["enum"], *([] if None in schema["enum"] else [None])]
    if isinstance(described.get("items"), Mapping):
        schema["items"] = _property(described["items"], nullable=False)
    inner = described.get("properties")
    if isinstance(inner, Mapping) and all(isinstance(value, Mapping) for value in inner.values()):
        schema["properties"] = {key: _property(value, nullable=False) for key, value in inner.items()}
        if needed := [key for key, value in inner.items() if value.get("required") is True]:
            schema["required"] = needed
    if isinstance(described.get("additionalProperties"), bool):
        schema["additionalProperties"] = described["additionalProperties"]
    return schema


def _schema(parameters: list[_Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {parameter.name: dict(parameter.schema) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }


def _signature(parameters: list[_Parameter]) -> list[str]:
    return [p.name if p.required else f"{p.name}={p.default!r}" for p in parameters]


def _body(
    metadata: Mapping[str, Any], action_class: str, parameters: list[_Parameter], fixed: Mapping[str, Any]
) -> str:
    description = metadata.get("description")
    said = (
        " ".join(description.split())
        if isinstance(description, str)
        else f"The action {metadata.get('name')} of StackStorm."
    )
    lines = [repr(said), f"return StackStorm.perform({source.ENTRY}.{action_class}, {{"]
    for parameter in parameters:
        value = parameter.name
        if parameter.config is not None:
            value = f"StackStorm.config()[{parameter.config!r}] if {value} is None else {value}"
        lines.append(f"    {parameter.name!r}: {value},")
    lines += [f"    {name!r}: {value!r}," for name, value in fixed.items()]
    return "\n".join([*lines, "})"])


def _timeout(given: Mapping[str, Any], metadata: Mapping[str, Any], notes: list[str]) -> float:
    described = given.get("timeout")
    wanted = described.get("default") if isinstance(described, Mapping) else None
    for name in ("env", "content_version"):
        if isinstance(given.get(name), Mapping):
            notes.append(f"the runner's parameter {name} has no counterpart")
    if isinstance(wanted, int | float) and not isinstance(wanted, bool) and 0 < wanted <= 86_400:
        return wanted
    return TIMEOUT
