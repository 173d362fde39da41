"""Reads a whole pack: its manifest and configuration, then each of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.names import NAME
from functory.packs.stackstorm.action import PackSettings, read_action
from functory.packs.stackstorm.document import parse_document
from functory.packs.stackstorm.folder import Folder
from functory.packs.stackstorm.report import ACTION_OUTCOMES, OTHER_OUTCOMES, Entry, LeftOut, Outcome, reason
from functory.packs.stackstorm.requirements import PackRequirements, parse_requirements
from functory.packs.stackstorm.rule import Target, read_rule

_YAML = (".yaml", ".yml")

# Folders whose files have no counterpart, with what to do instead.
_UNSUPPORTED = {
    "sensors": (
        "sensor",
        "sensors are programs that run all the time",
        "let the program emit events: functory event emit TYPE --data …",
    ),
    "aliases": ("alias", "chat commands have no counterpart", "start the function from your chat bot"),
    "policies": (
        "policy",
        "policies are limits of functions here",
        "set retries and the like with functory function edit",
    ),
}


@dataclass
class Pack:
    """A pack as it was read: its ``ref``, its ``version``, and one entry for each file that has a meaning."""

    ref: str
    version: str
    prefix: str
    entries: list[Entry] = field(default_factory=list)
    requirements: PackRequirements = field(default_factory=PackRequirements)

    def counts(self) -> dict[str, dict[Outcome, int]]:
        """The number of actions, of rules, and of other files with each outcome."""
        kinds = {"action": "actions", "rule": "rules"}
        made: dict[str, dict[Outcome, int]] = {
            "actions": dict.fromkeys(ACTION_OUTCOMES, 0),
            "rules": dict.fromkeys(OTHER_OUTCOMES, 0),
            "others": dict.fromkeys(OTHER_OUTCOMES, 0),
        }
        for entry in self.entries:
            made[kinds.get(entry.kind, "others")][entry.outcome] += 1
        return made


def read_pack(
    root: Path, *, prefix: str | None = None, config: Path | None = None, hosts: Sequence[str] = ()
) -> Pack:
    """Read the pack in the folder ``root``. ``prefix`` begins the names of what it becomes; None takes the pack's ref.
    ``config`` is a YAML file with values of the pack's configuration, ``hosts`` are what its functions connect to.

    Raises :class:`Invalid` for a folder that is no pack, or one for Python 2 only, and for a wrong ``config``.
    """
    folder = Folder(root)
    manifest = _manifest(folder)
    ref = str(manifest.get("ref") or manifest.get("name") or "")
    if not ref:
        raise Invalid("pack.yaml names no pack", "ref and name are missing", "write ref: my_pack")
    pack = Pack(ref, str(manifest.get("version", "")), ref if prefix is None else prefix)
    if pack.prefix and not NAME.fullmatch(_identifier(pack.prefix)):
        raise Invalid(f"{pack.prefix!r} cannot begin a function's name", "", "--prefix my_pack")
    settings = _settings(folder, pack, _read_config(config), tuple(hosts))
    targets = _read_actions(folder, pack, settings)
    declared = _declared(folder, pack)
    for path in folder.files_in("rules", *_YAML):
        _read_rule(folder, pack, path, targets, declared)
    for name, (kind, why, instead) in _UNSUPPORTED.items():
        for path in folder.files_in(name, *_YAML):
            pack.entries.append(Entry(path, kind, Path(path).stem).leave_out(why, instead))
    for path in [*folder.files_in("actions/workflows", *_YAML), *folder.files_in("actions/chains", *_YAML)]:
        pack.entries.append(
            Entry(path, "workflow", Path(path).stem).leave_out(
                "workflows have no counterpart", "write the steps as functions that call each other"
            )
        )
    for path in folder.links:
        pack.entries.append(
            Entry(path, "link", Path(path).name).leave_out(
                "it is a symbolic link", "copy the file into the pack"
            )
        )
    return pack


def _manifest(folder: Folder) -> Mapping[str, Any]:
    if "pack.yaml" not in folder.files:
        raise Invalid(
            f"{folder.root} is not a pack of StackStorm", "it has no pack.yaml", "name the pack's own folder"
        )
    manifest = folder.document("pack.yaml")
    if not isinstance(manifest, Mapping):
        raise Invalid("pack.yaml is not an object", "", "write ref: my_pack")
    versions = manifest.get("python_versions")
    if (
        isinstance(versions, list)
        and versions
        and "3" not in {str(version).split(".")[0] for version in versions}
    ):
        raise Invalid(
            "the pack is for Python 2 only",
            f"python_versions is {versions}",
            "port it to Python 3, and add that to python_versions in pack.yaml",
        )
    return manifest


def _read_config(file: Path | None) -> dict[str, Any]:
    """Values of the configuration, as StackStorm has them in ``configs/PACK.yaml``."""
    if file is None:
        return {}
    try:
        given = parse_document(file.read_text("utf-8-sig"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read", getattr(error, "strerror", None) or str(error)) from None
    if not isinstance(given, Mapping):
        raise Invalid(f"{file} is not an object", "it holds values of the pack's configuration", "key: value")
    return dict(given)


def _settings(
    folder: Folder, pack: Pack, given_values: dict[str, Any], hosts: tuple[str, ...]
) -> PackSettings:
    """Values and defaults of the configuration; keys that are secrets become secrets by the name PACK_KEY."""
    values: dict[str, Any] = {}
    missing: set[str] = set()
    secrets: dict[str, str] = {}
    path = "config.schema.yaml"
    if path in folder.files:
        entry = Entry(path, "configuration", pack.ref)
        pack.entries.append(entry)
        try:
            schema = folder.document(path) or {}
            if not isinstance(schema, Mapping):
                raise LeftOut("it is not an object", "write key: {type: …}")
        except (Invalid, LeftOut) as error:
            entry.leave_out(*reason(error))
            schema = {}
        for key, given in schema.items():
            described = given if isinstance(given, Mapping) else {}
            if described.get("secret") is True:
                secrets[key] = re.sub(r"\W", "_", f"{pack.prefix or pack.ref}_{key}").upper()
                if key in given_values:
                    entry.notes.append(
                        f"{key} is a secret and is not taken from the file: functory secret set {secrets[key]}"
                    )
                continue
            if key in given_values:
                continue
            default = described.get("default")
            if isinstance(default, str) and "{{" in default:
                entry.notes.append(f"the default of {key} is a template; give it in the file of --config")
                missing.add(key)
            elif default is not None:
                values[key] = default
            else:
                entry.notes.append(f"{key} has no default; give it in the file of --config")
                if described.get("required") is True:
                    missing.add(key)
        if secrets:
            entry.notes.append(
                "keys that are secret here: " + ", ".join(f"{key} ({name})" for key, name in secrets.items())
            )
    values |= {key: value for key, value in given_values.items() if key not in secrets}
    return PackSettings(values, secrets, _requirements(folder, pack), frozenset(missing), hosts)


def _requirements(folder: Folder, pack: Pack) -> PackRequirements:
    path = "requirements.txt"
    if path not in folder.files:
        return PackRequirements()
    entry = Entry(path, "requirements", pack.ref)
    pack.entries.append(entry)
    try:
        found = parse_requirements(folder.text(path))
    except Invalid as error:
        entry.leave_out(*reason(error))
        return PackRequirements()
    if found.taken:
        entry.notes.append("packages of the functions that import packages: " + ", ".join(found.taken))
    pack.requirements = found
    entry.notes += [f"not taken: {line}: {why}" for line, why in found.lost]
    return found


def _read_actions(folder: Folder, pack: Pack, settings: PackSettings) -> dict[str, Target]:
    targets: dict[str, Target] = {}
    functions: set[str] = set()
    for path in folder.files_in("actions", *_YAML):
        entry = Entry(path, "action", Path(path).stem, "runs")
        pack.entries.append(entry)
        try:
            metadata = folder.document(path)
            if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
                raise LeftOut("it has no name", "correct the file")
            entry.name = metadata["name"]
            entry.became = function = _function_name(pack.prefix, entry.name)
            if function in functions:
                raise LeftOut(
                    f"another action has become the function {function} already", "rename one of them"
                )
            read_action(folder, entry, {**metadata, "pack": pack.ref}, function, settings)
            if metadata.get("enabled") is False:
                entry.disabled = True
                entry.need(
                    "enabled",
                    "",
                    "to be enabled: it is not enabled in the pack",
                    f"functory function activate {function} 1",
                )
        except (Invalid, LeftOut) as error:
            entry.leave_out(*reason(error))
            continue
        assert entry.function is not None
        properties = entry.function["input_parameters"]["properties"]
        texts = frozenset(
            name
            for name, schema in properties.items()
            if schema.get("type") in ("string", ["string", "null"])
        )
        targets[f"{pack.ref}.{entry.name}"] = Target(function, texts, True)
        functions.add(function)
    return targets


def _declared(folder: Folder, pack: Pack) -> frozenset[str]:
    """The trigger types of the pack, in triggers/ and in the files of its sensors."""
    found: set[str] = set()
    for path in folder.files_in("triggers", *_YAML):
        entry = Entry(path, "trigger type", Path(path).stem)
        pack.entries.append(entry)
        try:
            document = folder.document(path)
            if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
                raise LeftOut("it has no name", "correct the file")
        except (Invalid, LeftOut) as error:
            entry.leave_out(*reason(error))
            continue
        entry.name = f"{pack.ref}.{document['name']}"
        entry.notes.append("an event type of this name; events need no declaration")
        found.add(entry.name)
    for path in folder.files_in("sensors", *_YAML):
        try:
            document = folder.document(path)
        except Invalid:
            continue
        types = document.get("trigger_types") if isinstance(document, Mapping) else None
        for described in types if isinstance(types, list) else ():
            if isinstance(described, Mapping) and isinstance(described.get("name"), str):
                found.add(f"{pack.ref}.{described['name']}")
    return frozenset(found)


def _read_rule(
    folder: Folder, pack: Pack, path: str, targets: Mapping[str, Target], declared: frozenset[str]
) -> None:
    entry = Entry(path, "rule", Path(path).stem)
    pack.entries.append(entry)

    def find(ref: str) -> Target:
        # The name alone is used for an action of the own pack in criteria.
        known = targets.get(ref) or targets.get(f"{pack.ref}.{ref}")
        if known is not None:
            return known
        cannot = any(
            e.kind == "action" and f"{pack.ref}.{e.name}" == ref and e.is_left_out for e in pack.entries
        )
        if cannot:
            name = ref.partition(".")[2]
            return Target(_function_name(pack.prefix, name), frozenset(), imported=False, cannot=True)
        return Target(
            _function_name(*ref.split(".", 1)) if "." in ref else _identifier(ref), frozenset(), False
        )

    try:
        rule = folder.document(path)
        if not isinstance(rule, Mapping) or not isinstance(rule.get("name"), str):
            raise LeftOut("it has no name", "correct the file")
        entry.name = rule["name"]
        read_rule(entry, rule, pack.prefix, find, declared)
    except (Invalid, LeftOut) as error:
        entry.leave_out(*reason(error))


def _function_name(prefix: str, name: str) -> str:
    return _identifier(f"{prefix}_{name}" if prefix else name)


def _identifier(text: str) -> str:
    made = re.sub(r"\W", "_", text, flags=re.ASCII)
    return made if not made[:1].isdigit() else f"_{made}"
