"""The declaration of a function: read, checked, and turned into the content of a version.

Pure: nothing here touches a row. ``functory.engine.functions.registry`` stores the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from functory.engine import names
from functory.engine.access import grants
from functory.engine.errors import Invalid, NotFound
from functory.engine.functions import dependencies, limits, output_matcher
from functory.engine.functions.source import modules, parser
from functory.engine.serialization import json_codec, json_schema

if TYPE_CHECKING:
    # A client of a server checks declarations, and has no rows.
    from functory.engine.functions.version_row import VersionRow

# The content of a version: a change of any of these makes a new version.
CONTENT = (
    "source",
    "parameters",
    "input_schema",
    "output_schema",
    "declared",
    "imports",
    "dependencies",
    "secrets",
    "permissions",
    "metadata",
    "output_patterns",
    "limits",
    "requirements",
    "grants",
    "reuse",
    "compensate",
    "modules",
)

# Fields that older schemas did not have: left out of the hash while they have these empty values.
_LATER_FIELDS: dict[str, Any] = {
    "requirements": [],
    "grants": {},
    "reuse": False,
    "compensate": None,
    "modules": {},
}

FIELDS = (
    "source",
    "imports",
    "dependencies",
    "secrets",
    "permissions",
    "metadata",
    "output_patterns",
    "limits",
    "requirements",
    "hosts",
    "models",
    "files",
    "subprocess",
    "reuse",
    "compensate",
    "input_parameters",
    "output_parameters",
    "validate_output",
    "modules",
)

PERMISSIONS = frozenset(grants.PERMISSIONS)


class Signature(Protocol):
    """The schemas that the child process made of a function's type hints, the hints that have no JSON form, and the
    error of executing its source.
    """

    @property
    def input_schema(self) -> dict[str, Any]: ...
    @property
    def output_schema(self) -> dict[str, Any] | None: ...
    @property
    def problems(self) -> Sequence[str]: ...
    @property
    def import_error(self) -> str | None: ...
    @property
    def unconvertible(self) -> Sequence[str]: ...


class Inspect(Protocol):
    """Inspects the signature of function ``name`` in a source; ``packages`` are folders to import from, ``modules``
    the texts of its own modules by name.
    """

    def __call__(
        self,
        source: str,
        name: str,
        *,
        packages: Sequence[str] = (),
        modules: Mapping[str, str] | None = None,
    ) -> Signature: ...


def parse(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Check the fields of a declaration. Raises :class:`Invalid`. ``key_dependencies`` (BabyAGI) means secrets."""
    given = dict(declared)
    if "key_dependencies" in given:
        keys = given.pop("key_dependencies")
        given["secrets"] = [*(given.get("secrets") or []), *(keys or [])]
    unknown = set(given) - set(FIELDS)
    if unknown:
        raise Invalid(
            "unknown fields of a function: " + ", ".join(sorted(unknown)),
            "the fields are " + ", ".join(FIELDS),
        )
    result: dict[str, Any] = {}
    for field in ("imports", "secrets", "permissions"):
        if field in given:
            result[field] = _names(given[field], field)
    wrong = set(result.get("permissions", ())) - PERMISSIONS
    if wrong:
        raise Invalid(
            "unknown permissions: " + ", ".join(sorted(wrong)),
            "the permissions are " + ", ".join(sorted(PERMISSIONS)),
        )
    if "dependencies" in given:
        result["dependencies"] = [d.as_json() for d in dependencies.parse(given["dependencies"])]
    if "metadata" in given:
        metadata = given["metadata"] or {}
        if not isinstance(metadata, Mapping):
            raise Invalid(
                "metadata must be an object",
                f"got a {type(metadata).__name__}",
                'metadata={"description": "…"}',
            )
        result["metadata"] = json_codec.loads(json_codec.encode(dict(metadata)))
    if "output_patterns" in given:
        result["output_patterns"] = output_matcher.check(given["output_patterns"] or {})
    if "limits" in given:
        limits.parse(given["limits"])
        result["limits"] = dict(given["limits"] or {})
    if "input_parameters" in given:
        result["input_schema"] = json_schema.parse_declared(given["input_parameters"], "input_parameters")
    if "output_parameters" in given:
        result["output_schema"] = json_schema.parse_declared(given["output_parameters"], "output_parameters")
    if "validate_output" in given:
        result["validate_output"] = bool(given["validate_output"])
    if "modules" in given:
        result["modules"] = modules.check_given(given["modules"])
    if "requirements" in given:
        result["requirements"] = _names(given["requirements"], "requirements")
    asked = grants.parse_declared({key: given[key] for key in grants.FIELDS if key in given})
    result |= {f"grants.{key}": value for key, value in asked.items()}
    if "reuse" in given:
        if given["reuse"] is not None and not isinstance(given["reuse"], bool):
            raise Invalid(
                f"wrong reuse={given['reuse']!r}", "it must be True or False, or None for the default"
            )
        result["reuse"] = given["reuse"]
    if "compensate" in given:
        reference = given["compensate"]
        if reference is not None:
            names.check_name(dependencies.parse_reference(reference, "compensation")[0])
        result["compensate"] = reference
    return result


def _names(value: Any, field: str) -> list[Any]:
    if isinstance(value, Mapping):
        value = [value]
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise Invalid(f"{field} must be a list", f"got {value!r}", f"write {field}=[{value!r}]")
    result: list[Any] = []
    for given in value:
        item = given
        if field == "imports" and isinstance(item, Mapping) and isinstance(item.get("name"), str):
            item = {key: item[key] for key in ("name", "lib") if isinstance(item.get(key), str)}
        elif not isinstance(item, str) or not 0 < len(item) <= 200:
            raise Invalid(f"{field} holds {item!r}", "each entry is a name")
        if item not in result:
            result.append(item)
    return result


def version_content(
    parsed: parser.Source | str,
    declared: dict[str, Any],
    base: dict[str, Any] | None,
    same: VersionRow | None,
    signature: Signature | None,
) -> dict[str, Any]:
    """Return the content of the next version: declared fields, else those of the base, else those found in the
    source. Its ``modules`` are hashes by name.
    """
    own = dict(base["declared"]) if base else {}
    for side in ("input_schema", "output_schema"):
        if side in declared:
            own[side] = declared[side] is not None
    if "reuse" in declared:
        # Otherwise a process is kept where that is safe.
        own["reuse"] = declared["reuse"] is False
    own["imports"] = "imports" in declared or own.get("imports", False)
    own_modules = declared.get("modules", base["modules"] if base else {})
    own["modules"] = bool(own_modules)
    own["validate_output"] = declared.get("validate_output", own.get("validate_output", False))
    if isinstance(parsed, str):
        if base is None:
            raise NotFound(f"function {parsed!r} not found", try_="functory function list")
        text = {key: base[key] for key in ("source", "source_sha256", "is_async", "parameters", "warnings")}
        found = {
            "input_schema": base["input_schema"],
            "output_schema": base["output_schema"],
            "imports": base["imports"],
        }
        if signature is not None:
            text["warnings"] = list(signature.problems)
    else:
        parameters = [p.as_json() for p in parsed.parameters]
        text = {
            "source": parsed.text,
            "source_sha256": parsed.sha256,
            "is_async": parsed.is_async,
            "parameters": parameters,
            "warnings": [],
        }
        found = {
            "input_schema": json_schema.from_parameters(parameters),
            "output_schema": None,
            "imports": list(parsed.imports),
        }
        if signature is not None:
            json_schema.check_cost(signature.input_schema, "input, made of the type hints,")
            json_schema.check_cost(signature.output_schema, "output, made of the type hints,")
            found |= {"input_schema": signature.input_schema, "output_schema": signature.output_schema}
            text["warnings"] = list(signature.problems)
        elif same is not None:
            if not same.declared.get("input_schema"):
                found["input_schema"] = same.input_schema
            if not same.declared.get("output_schema"):
                found["output_schema"] = same.output_schema
            text["warnings"] = [w for w in same.warnings if not w.startswith("the dependency ")]
    # Warnings about the compensation are made anew: the compensation may exist by now.
    text["warnings"] = [
        warning for warning in text["warnings"] if not warning.startswith("the compensation ")
    ]
    for side in ("input_schema", "output_schema"):
        if own.get(side):
            found[side] = declared.get(side, base[side] if base else found[side])
    empty: dict[str, Any] = {
        "dependencies": [],
        "secrets": [],
        "permissions": [],
        "metadata": {},
        "output_patterns": {},
        "limits": {},
        "requirements": [],
        "reuse": False,
        "compensate": None,
    }
    made = text | found | {"declared": {k: v for k, v in sorted(own.items()) if v}}
    for field, nothing in empty.items():
        made[field] = declared.get(field, base[field] if base else nothing)
    made["reuse"] = bool(made["reuse"])
    asked = dict(base["grants"]) if base else {}
    asked |= {
        key.removeprefix("grants."): value for key, value in declared.items() if key.startswith("grants.")
    }
    made["grants"] = {key: value for key, value in sorted(asked.items()) if value}
    made["modules"] = own_modules
    if made["limits"].get("processes", 1) > 1 and not made["grants"].get("subprocess"):
        raise Invalid(
            f"processes={made['limits']['processes']} without the right to start any",
            "a function is one process unless it may start programs",
            "declare subprocess=True as well",
        )
    if "imports" in declared:
        made["imports"] = declared["imports"]
    elif base is not None:
        made["imports"] = base["imports"] if isinstance(parsed, str) or own["imports"] else found["imports"]
    if not own["imports"]:
        tops = {name.partition(".")[0] for name in own_modules}
        made["imports"] = [name for name in made["imports"] if name not in tops]
    return made


def digest(made: Mapping[str, Any]) -> str:
    """Return the hash of a version's content.

    The existence of a dependency is not part of it: a function does not get a new version because its missing
    dependency was created.
    """
    plain = dict(made) | {"dependencies": [[d["name"], d["pin"]] for d in made["dependencies"]]}
    return json_codec.digest(
        [plain[key] for key in CONTENT if key not in _LATER_FIELDS or plain[key] != _LATER_FIELDS[key]]
    )
