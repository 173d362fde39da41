"""Functions and their immutable versions.

A change of anything makes one new version; saving the same content makes none. Numbers are given
out under the registry's lock, so they are unique and without gaps under any concurrency. Source
text is parsed here and never executed: type hints are evaluated by ``inspect``, which the caller
supplies and which runs in a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from engine import causes, codec, counters, dependencies, events, limits, outputs, schemas, source
from engine.causes import Cause
from engine.database import Database, Tx
from engine.errors import Conflict, Invalid, NotFound
from engine.tables import function, function_version, trigger, trigger_version

# The content of a version: what makes it a new one when it changes.
CONTENT = ("source", "parameters", "input_schema", "output_schema", "declared", "imports", "dependencies", "secrets",
           "permissions", "metadata", "output_patterns", "limits")

CHANGES = ("source", "imports", "dependencies", "secrets", "permissions", "metadata", "output_patterns", "limits",
           "input_parameters", "output_parameters", "validate_output")

PERMISSIONS = frozenset({"functions:read", "functions:write"})


class Signature(Protocol):
    """What the child process found out about a function's type hints."""

    @property
    def input_schema(self) -> dict[str, Any]: ...
    @property
    def output_schema(self) -> dict[str, Any] | None: ...
    @property
    def problems(self) -> Sequence[str]: ...


Inspect = Callable[[str, str], Signature]


class Functions:
    """The registry: save, read, activate, disable, delete."""

    def __init__(self, database: Database, inspect: Inspect | None = None) -> None:
        self._database = database
        self._inspect = inspect

    def save(
        self,
        text: str,
        *,
        name: str | None = None,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        cause: Cause | None = None,
        **declared: Any,
    ) -> dict[str, Any]:
        """Save a function as fully described: what is not in ``declared`` is empty.

        ``declared`` takes imports, dependencies, secrets (or key_dependencies), permissions, metadata,
        output_patterns, limits, input_parameters, output_parameters, validate_output. Returns the
        version row with ``created`` False when nothing had changed. Raises :class:`Invalid` or
        :class:`Conflict`.
        """
        return self._write(source.parse(text, name), declared, False, author, expected_version, activate, cause)

    def update(
        self,
        name: str,
        *,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        cause: Cause | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Change what ``changes`` names and keep the rest of the active version.

        Raises :class:`NotFound` for an unknown function, and as :meth:`save`.
        """
        text = changes.pop("source", None)
        self.get(name)
        parsed = source.parse(text, name) if text is not None else None
        return self._write(parsed or name, changes, True, author, expected_version, activate, cause)

    def get(self, name: str, number: int | None = None) -> dict[str, Any]:
        """A version with its function's ``name``, ``state``, ``active`` and ``latest``; the active one
        without a ``number``. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = load(tx, name, number) or (load_latest(tx, name) if number is None else None)
            if row is None or row["state"] == "deleted":
                raise self._missing(tx, name, number)
        return row

    def list(self, *, after: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """Functions by name, each with its active (else latest) version's row."""
        statement = (
            _joined()
            .where(function.c.state != "deleted",
                   function_version.c.number == sa.func.coalesce(function.c.active, function.c.latest))
            .order_by(function.c.name)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(function.c.name > after)
        with self._database.read() as tx:
            return tx.rows(statement)

    def versions(self, name: str) -> list[dict[str, Any]]:
        """All versions of a function, newest first. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            rows = tx.rows(_joined().where(function.c.name == name, function.c.state != "deleted")
                           .order_by(function_version.c.number.desc()))
            if not rows:
                raise self._missing(tx, name, None)
        return rows

    def activate(self, name: str, number: int, *, author: str = "", expected_version: int | None = None,
                 cause: Cause | None = None) -> dict[str, Any]:
        """Make version ``number`` the active one; also enables a disabled function.

        Raises :class:`NotFound` for a version that does not exist: nothing changes then.
        """
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            _check_expected(row, expected_version)
            version = load(tx, name, number)
            if version is None:
                raise self._missing(tx, name, number)
            # What this version needs may need it by now: a version that slept was not asked.
            _resolve(tx, name, version["dependencies"])
            if row["active"] != number or row["state"] != "enabled":
                tx.execute(sa.update(function).where(function.c.id == row["id"])
                           .values(active=number, state="enabled", updated_at=tx.now))
                data = _data(version) | {"previous_version": row["active"], "author": author}
                events.add(tx, [events.record(tx, "function.activated", name, data, source=_source(name), cause=cause)])
        return self.get(name, number)

    def rollback(self, name: str, *, author: str = "", cause: Cause | None = None) -> dict[str, Any]:
        """Activate the newest version older than the active one. Raises :class:`Conflict` when there is none."""
        row = self.get(name)
        older = [v["number"] for v in self.versions(name) if row["active"] is None or v["number"] < row["active"]]
        if not older:
            raise Conflict(f"{name} has no older version", f"version {row['active']} is its first",
                           f"functory function list, or save a new version of {name}")
        return self.activate(name, older[0], author=author, expected_version=row["active"], cause=cause)

    def disable(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """Start no more executions of ``name``; its versions stay. Raises :class:`NotFound`."""
        self._set_state(name, "disabled", "function.disabled", author, cause)

    def delete(self, name: str, *, force: bool = False, author: str = "", cause: Cause | None = None) -> None:
        """Delete a function; its executions and versions stay readable.

        Raises :class:`Conflict` while others depend on it or triggers run it, unless ``force``.
        """
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            users = _dependents(tx, name) + _triggers_of(tx, name)
            if users and not force:
                raise Conflict(f"{name} is in use", "it is needed by " + ", ".join(users),
                               f"change those first, or functory function delete {name} --force")
            tx.execute(sa.update(function).where(function.c.id == row["id"])
                       .values(state="deleted", active=None, updated_at=tx.now))
            data = {"function": name, "version": row["active"], "author": author, "forced": bool(users)}
            events.add(tx, [events.record(tx, "function.deleted", name, data, source=_source(name), cause=cause)])

    def dependents(self, name: str) -> list[str]:
        """Who needs ``name``: functions and triggers, as text."""
        with self._database.read() as tx:
            return _dependents(tx, name) + _triggers_of(tx, name)

    def _write(self, parsed: source.Source | str, declared: Mapping[str, Any], partial: bool, author: str,
               expected_version: int | None, activate: bool, cause: Cause | None) -> dict[str, Any]:
        declared = _read(declared)
        name = parsed if isinstance(parsed, str) else parsed.name
        # The child process is asked before the transaction, so that no lock waits for it; and not
        # at all when the source is the one that is stored already.
        signature = None
        if isinstance(parsed, source.Source) and self._inspect is not None and not self._known(parsed):
            signature = self._inspect(parsed.text, parsed.name)
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = tx.one(sa.select(function).where(function.c.name == name))
            alive = row is not None and row["state"] != "deleted"
            _check_expected(row if alive else None, expected_version)
            base = (load(tx, name, None) or load_latest(tx, name)) if alive else None
            if partial and base is None:
                raise self._missing(tx, name, None)
            content = _content(parsed, declared, base if partial else None, _same_source(tx, parsed), signature)
            warnings = content.pop("warnings")
            content["dependencies"] = _resolve(tx, name, content["dependencies"])
            unresolved = [d["name"] for d in content["dependencies"] if not d["resolved"]]
            warnings = [*warnings, *(f"the dependency {d} does not exist yet" for d in unresolved)]
            sha256 = _hash(content)
            if alive and base is not None and base["sha256"] == sha256 and row["active"] == base["number"]:
                return base | {"created": False}
            latest = load_latest(tx, name) if alive and not activate else None
            if latest is not None and latest["sha256"] == sha256:
                return latest | {"created": False}
            number = (row["latest"] if row else 0) + 1
            active = number if activate else row["active"] if row else None
            values = {"state": "enabled" if activate or not alive else row["state"] if row else "enabled",
                      "active": active, "latest": number, "updated_at": tx.now}
            if row is None:
                function_id = tx.new_id()
                tx.insert(function, [{"id": function_id, "name": name, "created_at": tx.now, **values}])
            else:
                function_id = row["id"]
                tx.execute(sa.update(function).where(function.c.id == function_id).values(**values))
            version = content | {
                "id": tx.new_id(), "function_id": function_id, "number": number, "sha256": sha256, "warnings": warnings,
                "author": author, "created_at": tx.now, "cause_execution_id": cause.execution_id if cause else None,
            }
            tx.insert(function_version, [version])
            changed = [key for key in CONTENT if base is None or base[key] != content[key]]
            data = _data(version | {"name": name}) | {
                "previous_version": base["number"] if base else None, "changed": changed, "author": author,
                "active": active == number, "warnings": warnings,
            }
            type_ = "function.updated" if alive else "function.created"
            events.add(tx, [events.record(tx, type_, name, data, source=_source(name), cause=cause)])
        return self.get(name, number) | {"created": True}

    def _known(self, parsed: source.Source) -> bool:
        with self._database.read() as tx:
            return _same_source(tx, parsed) is not None

    def _set_state(self, name: str, state: str, type_: str, author: str, cause: Cause | None) -> None:
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            if row["state"] == state:
                return
            tx.execute(sa.update(function).where(function.c.id == row["id"]).values(state=state, updated_at=tx.now))
            data = {"function": name, "version": row["active"], "author": author}
            events.add(tx, [events.record(tx, type_, name, data, source=_source(name), cause=cause)])

    def _existing(self, tx: Tx, name: str) -> dict[str, Any]:
        row = tx.one(sa.select(function).where(function.c.name == name, function.c.state != "deleted"))
        if row is None:
            raise self._missing(tx, name, None)
        return row

    @staticmethod
    def _missing(tx: Tx, name: str, number: int | None) -> NotFound:
        numbers = [row["number"] for row in tx.rows(
            sa.select(function_version.c.number).join(function, function.c.id == function_version.c.function_id)
            .where(function.c.name == name, function.c.state != "deleted").order_by(function_version.c.number))]
        if numbers and number is not None:
            return NotFound(f"function {name!r} has no version {number}", f"it has {_ranges(numbers)}",
                            f"functory function show {name}")
        return NotFound(f"function {name!r} not found", try_="functory function list")


def load(tx: Tx, name: str, number: int | None) -> dict[str, Any] | None:
    """A version of a function that is not deleted, the active one without ``number``; None when missing."""
    wanted = function.c.active if number is None else number
    return tx.one(_joined().where(function.c.name == name, function.c.state != "deleted", function_version.c.number == wanted))


def load_latest(tx: Tx, name: str) -> dict[str, Any] | None:
    """The newest version of a function that is not deleted; None when missing."""
    return tx.one(_joined().where(function.c.name == name, function.c.state != "deleted",
                                  function_version.c.number == function.c.latest))


def load_reference(tx: Tx, reference: str) -> dict[str, Any]:
    """The version that ``name`` or ``name@3`` stands for. Raises :class:`NotFound`."""
    name, pin = dependencies.reference(reference)
    row = load(tx, name, pin)
    if row is None:
        raise NotFound(f"function {reference!r} not found", try_="functory function list")
    return row


def load_many(tx: Tx, references: Iterable[tuple[str, int | None]]) -> dict[tuple[str, int | None], dict[str, Any]]:
    """Several versions in one statement, by (name, pin or None for the active one)."""
    wanted = sorted(set(references), key=lambda r: (r[0], r[1] or 0))
    if not wanted:
        return {}
    # Lists and not a chain of ORs: SQLite refuses expressions of more than a thousand levels.
    floating = [name for name, pin in wanted if pin is None]
    pinned = [(name, pin) for name, pin in wanted if pin is not None]
    rows = tx.rows(_joined().where(function.c.state != "deleted", sa.or_(
        sa.and_(function.c.name.in_(floating), function_version.c.number == function.c.active),
        sa.tuple_(function.c.name, function_version.c.number).in_(pinned))))
    found: dict[tuple[str, int | None], dict[str, Any]] = {(row["name"], row["number"]): row for row in rows}
    found |= {(row["name"], None): row for row in rows if row["active"] == row["number"]}
    return {reference: found[reference] for reference in wanted if reference in found}


def load_version(tx: Tx, version_id: str) -> dict[str, Any]:
    """The version with this id, whatever became of its function. Raises :class:`NotFound`."""
    row = tx.one(_joined().where(function_version.c.id == version_id))
    if row is None:
        raise NotFound(f"function version {version_id} not found")
    return row


def _joined() -> sa.Select[Any]:
    return sa.select(function_version, function.c.name, function.c.name.label("function"), function.c.state, function.c.active,
                     function.c.latest).join(function, function.c.id == function_version.c.function_id)


def _read(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Check a declaration's fields; ``key_dependencies`` is BabyAGI's word for secrets."""
    given = dict(declared)
    if "key_dependencies" in given:
        keys = given.pop("key_dependencies")
        given["secrets"] = [*(given.get("secrets") or []), *(keys or [])]
    unknown = set(given) - set(CHANGES)
    if unknown:
        raise Invalid("unknown fields of a function: " + ", ".join(sorted(unknown)), "known are " + ", ".join(CHANGES))
    result: dict[str, Any] = {}
    for field in ("imports", "secrets", "permissions"):
        if field in given:
            result[field] = _names(given[field], field)
    wrong = set(result.get("permissions", ())) - PERMISSIONS
    if wrong:
        raise Invalid("unknown permissions: " + ", ".join(sorted(wrong)), "known are " + ", ".join(sorted(PERMISSIONS)))
    if "dependencies" in given:
        result["dependencies"] = [d.as_json() for d in dependencies.read(given["dependencies"])]
    if "metadata" in given:
        metadata = given["metadata"] or {}
        if not isinstance(metadata, Mapping):
            raise Invalid("metadata must be an object", f"got a {type(metadata).__name__}", 'metadata={"description": "…"}')
        result["metadata"] = codec.loads(codec.encode(dict(metadata)))
    if "output_patterns" in given:
        result["output_patterns"] = outputs.check(given["output_patterns"] or {})
    if "limits" in given:
        limits.read(given["limits"])
        result["limits"] = dict(given["limits"] or {})
    if "input_parameters" in given:
        result["input_schema"] = schemas.declared(given["input_parameters"], "input_parameters")
    if "output_parameters" in given:
        result["output_schema"] = schemas.declared(given["output_parameters"], "output_parameters")
    if "validate_output" in given:
        result["validate_output"] = bool(given["validate_output"])
    return result


def _names(value: Any, field: str) -> list[Any]:
    if isinstance(value, Mapping):
        value = [value]
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise Invalid(f"{field} must be a list", f"got {value!r}", f"write {field}=[{value!r}]")
    result: list[Any] = []
    for item in value:
        if field == "imports" and isinstance(item, Mapping) and isinstance(item.get("name"), str):
            item = {key: item[key] for key in ("name", "lib") if isinstance(item.get(key), str)}
        elif not isinstance(item, str) or not 0 < len(item) <= 200:
            raise Invalid(f"{field} holds {item!r}", "each entry is a name")
        if item not in result:
            result.append(item)
    return result


def _same_source(tx: Tx, parsed: source.Source | str) -> dict[str, Any] | None:
    """The newest version with exactly this source: what its hints said need not be asked again."""
    if isinstance(parsed, str):
        return None
    return tx.one(_joined().where(function.c.name == parsed.name, function_version.c.source_sha256 == parsed.sha256)
                  .order_by(function_version.c.number.desc()).limit(1))


def _content(parsed: source.Source | str, declared: dict[str, Any], base: dict[str, Any] | None,
             same: dict[str, Any] | None, signature: Signature | None) -> dict[str, Any]:
    """The content of the next version: what is declared, else what the base had, else what was found."""
    own = dict(base["declared"]) if base else {}
    for side in ("input_schema", "output_schema"):
        if side in declared:
            own[side] = declared[side] is not None
    own["imports"] = "imports" in declared or own.get("imports", False)
    own["validate_output"] = declared.get("validate_output", own.get("validate_output", False))
    if isinstance(parsed, str):
        if base is None:
            raise NotFound(f"function {parsed!r} not found", try_="functory function list")
        text = {key: base[key] for key in ("source", "source_sha256", "is_async", "parameters", "warnings")}
        found = {"input_schema": base["input_schema"], "output_schema": base["output_schema"], "imports": base["imports"]}
    else:
        parameters = [p.as_json() for p in parsed.parameters]
        text = {"source": parsed.text, "source_sha256": parsed.sha256, "is_async": parsed.is_async,
                "parameters": parameters, "warnings": []}
        found = {"input_schema": schemas.of_parameters(parameters), "output_schema": None, "imports": list(parsed.imports)}
        if signature is not None:
            found |= {"input_schema": signature.input_schema, "output_schema": signature.output_schema}
            text["warnings"] = list(signature.problems)
        elif same is not None:
            if not same["declared"].get("input_schema"):
                found["input_schema"] = same["input_schema"]
            if not same["declared"].get("output_schema"):
                found["output_schema"] = same["output_schema"]
            text["warnings"] = [w for w in same["warnings"] if not w.startswith("the dependency ")]
    for side in ("input_schema", "output_schema"):
        if own.get(side):
            found[side] = declared.get(side, base[side] if base else found[side])
    empty: dict[str, Any] = {"dependencies": [], "secrets": [], "permissions": [], "metadata": {}, "output_patterns": {},
                             "limits": {}}
    content = text | found | {"declared": {k: v for k, v in sorted(own.items()) if v}}
    for field, nothing in empty.items():
        content[field] = declared.get(field, base[field] if base else nothing)
    if "imports" in declared:
        content["imports"] = declared["imports"]
    elif base is not None:
        content["imports"] = base["imports"] if isinstance(parsed, str) or own["imports"] else found["imports"]
    return content


def _hash(content: Mapping[str, Any]) -> str:
    """Equal content, equal hash. Whether a dependency exists yet is not content: else each saving
    of a function with a missing dependency would make a new version once it is there."""
    plain = dict(content) | {"dependencies": [[d["name"], d["pin"]] for d in content["dependencies"]]}
    return codec.digest([plain[key] for key in CONTENT])


def _resolve(tx: Tx, name: str, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark each dependency as existing or not, and refuse a cycle with its path."""
    graph: dict[str, list[str]] = {name: []}
    waiting = list(dependencies.read(declared))
    known: dict[str, bool] = {}
    graph[name] = [str(d) for d in waiting]
    while waiting:
        wanted = [d for d in waiting if str(d) not in known and not (d.name == name and d.pin is None)]
        rows = load_many(tx, [(d.name, d.pin) for d in wanted])
        waiting = []
        for dependency in wanted:
            row = rows.get((dependency.name, dependency.pin))
            known[str(dependency)] = row is not None
            below = dependencies.read(row["dependencies"]) if row else ()
            graph[str(dependency)] = [str(d) for d in below]
            waiting.extend(below)
    dependencies.check_acyclic(name, graph)
    return [d.as_json() | {"resolved": known.get(str(d), False)} for d in dependencies.read(declared)]


def _dependents(tx: Tx, name: str) -> list[str]:
    rows = tx.rows(sa.select(function.c.name, function_version.c.number, function_version.c.dependencies)
                   .join(function_version, sa.and_(function_version.c.function_id == function.c.id,
                                                   function_version.c.number == function.c.active))
                   .where(function.c.state != "deleted", function.c.name != name).order_by(function.c.name))
    return [f"function {row['name']}" for row in rows if any(d["name"] == name for d in row["dependencies"])]


def _triggers_of(tx: Tx, name: str) -> list[str]:
    rows = tx.rows(sa.select(trigger.c.name, trigger_version.c.definition)
                   .join(trigger_version, sa.and_(trigger_version.c.trigger_id == trigger.c.id,
                                                  trigger_version.c.number == trigger.c.version))
                   .where(trigger.c.state != "deleted").order_by(trigger.c.name))
    return [f"trigger {row['name']}" for row in rows if dependencies.reference(row["definition"]["function"])[0] == name]


def _check_expected(row: Mapping[str, Any] | None, expected: int | None) -> None:
    if expected is None:
        return
    active = row["active"] if row else None
    if (active or 0) != expected:
        raise Conflict("somebody else changed the function meanwhile",
                       f"you expected version {expected}, active is {active if active is not None else 'none'}",
                       "look at the newer version, then save again on top of it")


def _data(version: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "function": version["name"], "version": version["number"], "sha256": version["sha256"],
        "source_sha256": version["source_sha256"], "metadata": version["metadata"],
        "dependencies": [d["name"] for d in version["dependencies"]],
    }


def _source(name: str) -> str:
    return f"/functory/functions/{name}"


def _ranges(numbers: list[int]) -> str:
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"versions {numbers[0]} to {numbers[-1]}"
    return "version" + ("s " if len(numbers) > 1 else " ") + ", ".join(map(str, numbers))
