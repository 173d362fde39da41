"""Why a draft of a trigger cannot be compiled, and where: each fault with a JSON pointer (RFC 6901) into the draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers import definition
from functory.triggers.save_checks.problems import Problem, pointer

Check = Callable[[Any], Invalid | None]

# Fields whose members can be judged by themselves, one level deep.
_OF_MEMBERS = frozenset({"guards", "flow"})


def draft_faults(draft: Mapping[str, Any]) -> list[Problem]:
    """Return every field of a draft that cannot be compiled; empty for a draft that can be saved as far as its form
    goes.
    """
    error = _error(lambda: definition.parse(draft))
    if error is None:
        return []
    found: list[Problem] = []
    if "event_type" not in draft:
        for field in sorted(definition.FIELDS & set(draft)):
            wrong = _check_of(field, draft)(draft[field])
            if wrong is not None:
                deepest, where = _deepest(field, draft, wrong)
                found.append(_problem(deepest, where))
    unknown = sorted(set(draft) - definition.FIELDS - {"name"}) if "event_type" not in draft else []
    missing = [name for name in ("on", "function") if not draft.get(name)]
    where = pointer(unknown[0]) if unknown else pointer(missing[0]) if missing else ""
    return found or [_problem(error, where)]


def _check_of(field: str, draft: Mapping[str, Any]) -> Check:
    """Return the check of one field, with all the others right."""

    def check(value: Any) -> Invalid | None:
        fields: dict[str, Any] = {"function": "f", "on": {"type": ["t"]}}
        if (
            field == "flow"
            and draft.get("composite")
            and _check_of("composite", draft)(draft["composite"]) is None
        ):
            fields["composite"] = draft["composite"]
        fields[field] = value
        if fields.get("composite"):
            del fields["on"]
        return _error(lambda: definition.parse(fields))

    return check


def _deepest(field: str, draft: Mapping[str, Any], error: Invalid) -> tuple[Invalid, str]:
    """Follow a fault into the field, as far as a part of it alone has a fault."""
    check, value = _check_of(field, draft), draft[field]
    if field in _OF_MEMBERS and isinstance(value, Mapping):
        for name, member in value.items():
            wrong = check({name: member})
            if wrong is not None:
                return wrong, pointer(field, name)
    if field in ("on", "input"):
        return _descend(check, value, error, (field,), keep_shape=field == "on")
    return error, pointer(field)


def _descend(
    check: Check, value: Any, error: Invalid, steps: tuple[str | int, ...], *, keep_shape: bool
) -> tuple[Invalid, str]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            # A pattern is checked from its root, as its parts have no meaning alone; a template's part is a template.
            inner: Check = (lambda part, name=name: check({name: part})) if keep_shape else check
            wrong = inner(below)
            if wrong is not None:
                return _descend(inner, below, wrong, (*steps, name), keep_shape=keep_shape)
    elif isinstance(value, list) and not keep_shape:
        for number, below in enumerate(value):
            wrong = check(below)
            if wrong is not None:
                return _descend(check, below, wrong, (*steps, number), keep_shape=keep_shape)
    elif isinstance(value, list) and steps[-1] == "$or":
        for number, below in enumerate(value):
            # Alternatives come at least in pairs.
            if check([below, below]) is not None:
                return error, pointer(*steps, number)
    return error, pointer(*steps)


def _error(compile_: Callable[[], object]) -> Invalid | None:
    try:
        compile_()
    except Invalid as error:
        return error
    return None


def _problem(error: Invalid, where: str) -> Problem:
    return Problem(error.what, error.why, error.try_, certain=True, pointer=where)
