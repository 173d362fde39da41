"""All checks of one trigger against what is stored: its patterns, its paths, its function and its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from functory.engine.errors import Invalid
from functory.engine.events.event_types import DATA_FIELDS
from functory.engine.events.store import RESERVED, TYPE
from functory.engine.functions import dependencies
from functory.triggers.definition import EVENT_TYPES, CompiledTrigger
from functory.triggers.patterns import Pattern
from functory.triggers.save_checks.event_kinds import EventKind, branch_kinds, kinds_of
from functory.triggers.save_checks.input_fit import input_problems
from functory.triggers.save_checks.problems import Problem, listed, nearest, pointer, pointer_of_place
from functory.triggers.save_checks.references import Reference, patterns_of, references_of
from functory.triggers.save_checks.schema_paths import Gap
from functory.triggers.save_checks.surroundings import Surroundings

# Names that have a value without members, or none at all.
_TIME, _EMPTY = "now", "vars"


def check(compiled: CompiledTrigger, around: Surroundings) -> list[str]:
    """Return the warnings about a trigger. Raises :class:`Invalid` for one that can never work."""
    problems = find_problems(compiled, around)
    certain = [one for one in problems if one.certain]
    if len(certain) == 1:
        raise Invalid(certain[0].what, certain[0].why, certain[0].try_)
    if certain:
        try_ = next((one.try_ for one in certain if one.try_), "")
        raise Invalid(
            f"the trigger can never work, for {len(certain)} reasons",
            "\n".join(one.text for one in certain),
            try_,
        )
    return [f"{one.text}; {one.try_}" if one.try_ else one.text for one in problems]


def find_problems(compiled: CompiledTrigger, around: Surroundings) -> list[Problem]:
    """Return everything that is wrong, or may be, in the order of the definition, each once."""
    found = [*_pattern_problems(compiled, around)]
    for reference in references_of(compiled):
        problem = _reference_problem(reference, around)
        if problem is not None:
            found.append(replace(problem, pointer=pointer_of_place(reference.place)))
    target = [
        one if one.pointer else replace(one, pointer=pointer("function"))
        for one in _target_problems(compiled, around)
    ]
    return list(dict.fromkeys([*found, *target, *_own_event_problems(compiled)]))


def _target_problems(compiled: CompiledTrigger, around: Surroundings) -> list[Problem]:
    target = around.target
    if target is None:
        near = nearest(dependencies.parse_reference(compiled.function)[0], around.functions)
        return [
            Problem(
                f"the function {compiled.function} does not exist yet",
                "the trigger is suppressed until it does",
                f"did you mean {near}?" if near and near != compiled.function else "",
            )
        ]
    if target["state"] != "enabled":
        return [
            Problem(
                f"the function {compiled.function} is {target['state']}",
                "the trigger is suppressed until it is activated",
                f"functory function activate {target['name']}@{target['number']}",
            )
        ]
    problems = input_problems(compiled, target, around.functions)
    return [replace(one, pointer=pointer("input")) for one in problems]


def _own_event_problems(compiled: CompiledTrigger) -> Iterator[Problem]:
    """A pattern that names the function that the trigger runs: the guard for own events stops what it causes itself."""
    function = dependencies.parse_reference(compiled.function)[0]
    if compiled.guards.allow_self:
        return
    for place, pattern in patterns_of(compiled):
        if place == "the pattern of cancel_on":
            continue
        if any(_is_about_ends(kind) and function in (kind.subjects or ()) for kind in kinds_of(pattern)):
            yield Problem(
                f"{place} takes the events of {function}, which the trigger runs itself",
                "the guard own_event suppresses those that its own executions cause",
                "to run for them too, use the guards allow_self and acknowledge_cycle",
                pointer=pointer_of_place(place),
            )


def _is_about_ends(kind: EventKind) -> bool:
    return (kind.type or "").startswith(("execution.", "output."))


def _pattern_problems(compiled: CompiledTrigger, around: Surroundings) -> Iterator[Problem]:
    # Each condition of BabyAGI's spelling becomes two branches, of which one usually matches nothing.
    either = compiled.passes == "output"
    for place, pattern in patterns_of(compiled):
        yield from _path_problems(place, pattern, around, warn_of_one_branch=not either)
        for problem in (
            *_type_problems(place, pattern, around),
            *_emitter_problems(place, kinds_of(pattern), around),
        ):
            yield replace(problem, pointer=pointer_of_place(place))


def _path_problems(
    place: str, pattern: Pattern, around: Surroundings, *, warn_of_one_branch: bool
) -> Iterator[Problem]:
    """Paths that no event has: the branch that tests them matches nothing."""
    dead: list[list[Problem]] = []
    for branch in pattern.branches:
        kinds = branch_kinds(branch)
        of_branch: list[Problem] = []
        for requirement in branch.requirements:
            steps = requirement.path.split(".")
            gaps = [kind.gap(steps, around.functions, through_lists=True) for kind in kinds]
            gap = _worst(gaps)
            if gap is not None and not requirement.or_absent:
                written = ".".join(steps)
                of_branch.append(
                    Problem(
                        f"{place} tests {written}, which no such event has",
                        gap.why,
                        _meant(steps, gap),
                        gap.certain,
                        pointer_of_place(place) + (pointer(*steps) if place == "the pattern" else ""),
                    )
                )
        dead.append(of_branch)
    if all(dead):
        yield from (problem for problems in dead for problem in problems)
    elif warn_of_one_branch:
        yield from (replace(problem, certain=False) for problems in dead for problem in problems)


def _type_problems(place: str, pattern: Pattern, around: Surroundings) -> Iterator[Problem]:
    """Types that no event can have, and types that are like a known one and of which no event is stored."""
    for type_ in sorted({kind.type for kind in kinds_of(pattern) if kind.type is not None}):
        if type_ in DATA_FIELDS or around.was_seen(type_):
            continue
        if TYPE.fullmatch(type_) is None:
            yield Problem(
                f"{place} lists the type {type_!r}, which no event can have",
                "a type is words of letters, digits, _ and -, joined with dots; each character stands for itself",
                f'"type": [{{"wildcard": "{type_}"}}]' if "*" in type_ else "",
                certain=True,
            )
            continue
        reserved = type_.split(".")[0] in RESERVED
        # Types of a user's own are often alike (order.paid, order.placed): one or two wrong characters are a mistake.
        near = nearest(type_, {*DATA_FIELDS, *EVENT_TYPES, *around.seen_types()}, 0.8 if reserved else 0.9)
        near = (EVENT_TYPES.get(near) or (near,))[0] if near is not None else None
        if near is None and not reserved:
            continue
        why = "the engine has no such event" if reserved else "no event of it has been seen"
        yield Problem(
            f"{place} lists the type {type_}", why, f"did you mean {near}?" if near is not None else ""
        )


def _emitter_problems(place: str, kinds: Sequence[EventKind], around: Surroundings) -> Iterator[Problem]:
    """Functions that do not exist, and output patterns that no function declares."""
    for kind in kinds:
        family = (kind.type or "").split(".")[0]
        if family not in ("function", "execution", "output") or kind.type == "function.created":
            continue
        for subject in sorted(kind.subjects or ()):
            if subject not in around.functions:
                near = nearest(subject, around.functions)
                yield Problem(
                    f"{place} names the function {subject}",
                    "it does not exist yet",
                    f"did you mean {near}?" if near is not None else "",
                )
        if kind.type != "output.matched":
            continue
        emitters = [
            around.functions[name] for name in kind.subjects or around.functions if name in around.functions
        ]
        declared = {name for row in emitters for name in row["output_patterns"] or ()}
        for name in sorted((kind.output_patterns or frozenset()) - declared if emitters else ()):
            near = nearest(name, declared)
            yield Problem(
                f"{place} names the output pattern {name}",
                f"the functions declare {listed(declared) or 'none'}",
                f"did you mean {near}?" if near is not None else "",
            )


def _reference_problem(reference: Reference, around: Surroundings) -> Problem | None:
    what = f"{reference.place} reads {reference.text}"
    root, steps = reference.root, reference.steps
    if reference.roots and root not in reference.roots:
        near = nearest(root, reference.roots, 0.5)
        why = f"there is no {root} here; there is {', '.join(reference.roots)}"
        if root == "events":
            why = "the trigger passes one event at a time; there is event and data"
        return Problem(what, why, f"did you mean {near}?" if near else "", True)
    if root in (_TIME, _EMPTY):
        why = "now is a timestamp" if root == _TIME else "vars is empty"
        return Problem(what, why, "", not reference.optional) if steps else None
    if root == "events":
        if not steps or not isinstance(steps[0], int):
            return (
                Problem(what, "events is a list", "events[0] is the first of them", True) if steps else None
            )
        steps = steps[1:]
    into_event = ("data", *steps) if root == "data" else steps
    gaps = [kind.gap(into_event, around.functions) for kind in reference.kinds]
    gap = _worst(gaps)
    if gap is None:
        missing = [kind.type for kind, one in zip(reference.kinds, gaps, strict=True) if one is not None]
        if not missing or reference.optional:
            return None
        return Problem(
            f"{what}, which events of the type {listed(filter(None, missing))} do not have",
            "the trigger fails for them",
        )
    meant = _meant(into_event, gap)
    return Problem(f"{what}, which no such event has", gap.why, meant, gap.certain and not reference.optional)


def _worst(gaps: Sequence[Gap | None]) -> Gap | None:
    """Return the gap of a path that no kind of event has, a likely one before a certain one; None when one has it."""
    found = [gap for gap in gaps if gap is not None]
    return min(found, key=lambda gap: gap.certain) if found and len(found) == len(gaps) else None


def _meant(steps: Sequence[str | int], gap: Gap) -> str:
    near = nearest(steps[gap.at], gap.names, 0.6) if gap.at < len(steps) else None
    return f"did you mean {near}?" if near is not None else ""
