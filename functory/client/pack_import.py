"""Imports a pack: saves its functions, triggers, schedules and webhooks, and finds what each function still lacks.

:mod:`functory.packs.stackstorm.pack` has read the pack. A function is saved after its modules were really imported, in
the sandbox and without any rights; so an action that cannot start is never reported as one that runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from functory.engine.access import grants
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.functions import environments
from functory.engine.functions.environments import NO_PACKAGES, PackageNeeds, Resolved
from functory.engine.functions.registry import Functions
from functory.engine.functions.source import parser
from functory.engine.serialization import json_schema
from functory.packs.stackstorm.action import need_hosts
from functory.packs.stackstorm.import_error import judge_import
from functory.packs.stackstorm.pack import Pack
from functory.packs.stackstorm.report import Entry
from functory.packs.stackstorm.requirements import networked
from functory.triggers import definition
from functory.triggers.sources.schedules.timestamps import parse_timestamp

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.functions.declaration import Inspect, Signature

Modules = Mapping[str, str]


class PackImport:
    """One import. Without an ``engine`` it is a dry run: everything that needs no database is checked."""

    def __init__(self, pack: Pack, inspect: Inspect, engine: Functory | None) -> None:
        self._pack = pack
        self._engine = engine
        self._inspect = inspect
        self._inspected: dict[tuple[tuple[str, ...], frozenset[tuple[str, str]]], Signature] = {}
        self._resolved: dict[tuple[str, ...], Resolved] = {}
        self._functions = (
            Functions(engine.database, self._inspect_once, engine.settings, engine.environments.resolve)
            if engine is not None
            else None
        )

    def run(self, progress: Callable[[Entry], None] = lambda _: None) -> None:
        """Import every entry of the pack, and write the outcome into it."""
        for entry in self._pack.entries:
            try:
                if entry.function is not None:
                    self._import_function(entry, entry.function)
                elif entry.trigger is not None or entry.schedule is not None:
                    self._import_rule(entry)
            except (Invalid, Conflict) as error:
                entry.leave_out(error.reason, error.try_)
            progress(entry)

    def _import_function(self, entry: Entry, function: Mapping[str, Any]) -> None:
        declared = dict(function)
        text, name = declared.pop("text"), declared.pop("name")
        parser.parse(text, name)
        json_schema.parse_declared(declared["input_parameters"], "input_parameters")
        requirements, resolved = self._packages(entry)
        known = not requirements or resolved.environment is not None
        found = self._inspect_once(text, name, packages=resolved.packages, modules=declared["modules"])
        judge_import(entry, found.import_error, self._pack.requirements, known)
        if entry.is_left_out:
            return
        if not known:
            self._need_packages(entry, name, requirements, resolved)
        if requirements and not declared["hosts"] and networked(self._distributions(requirements, resolved)):
            need_hosts(entry, name)
        for secret in declared["secrets"]:
            entry.need("secret", secret, f"the secret {secret}", f"functory secret set {secret}")
        if self._engine is not None:
            self._save_function(
                self._engine, entry, text, name, declared | {"requirements": list(requirements)}
            )
        entry.settle()

    def _save_function(
        self, engine: Functory, entry: Entry, text: str, name: str, declared: dict[str, Any]
    ) -> None:
        assert self._functions is not None
        row = self._functions.save(text, name=name, author=engine.author, **declared)
        if entry.disabled and row["created"] and row["number"] == 1:
            engine.functions.disable(name, author=engine.author)
        granted, waiting = engine.grant_approvals.effective_and_pending(row)
        for kind, value in waiting.items():
            entry.need(
                kind,
                value,
                f"the grant of {f'{kind} {value}'.rstrip()}",
                grants.allow_command(name, row["number"], kind, value),
            )
        missing = engine.secrets.missing(declared["secrets"])
        state = engine.functions.get(name)["state"]
        for need in list(entry.needs):
            met = {
                "host": bool(granted.hosts) and not need.value,
                "subprocess": granted.subprocess,
                "secret": need.value not in missing and need.value not in waiting.secrets,
                "state": need.kind == "state" and engine.state.get(name, need.value) is not None,
                "enabled": state == "enabled",
            }
            if met.get(need.kind):
                entry.needs.remove(need)

    def _packages(self, entry: Entry) -> tuple[tuple[str, ...], Resolved]:
        """The requirements of a function and their environment: the first set that can be installed, else the first."""
        wanted = entry.requirement_sets or [()]
        if self._engine is None or not wanted[0]:
            return wanted[0], NO_PACKAGES
        for number, requirements in enumerate(wanted):
            resolved = self._resolve(requirements)
            if resolved.error is None:
                if number:
                    why = _last_line(self._resolve(wanted[0]).error)
                    entry.notes.append(
                        f"its environment has only {', '.join(requirements)}: the whole of requirements.txt cannot be"
                        f" installed: {why}"
                    )
                return requirements, resolved
        return wanted[0], self._resolve(wanted[0])

    def _resolve(self, requirements: tuple[str, ...]) -> Resolved:
        assert self._engine is not None
        if requirements not in self._resolved:
            self._resolved[requirements] = self._engine.environments.resolve(PackageNeeds(requirements))
        return self._resolved[requirements]

    def _need_packages(
        self, entry: Entry, name: str, requirements: tuple[str, ...], resolved: Resolved
    ) -> None:
        packages = ", ".join(requirements)
        if resolved.error is not None:
            why = _last_line(resolved.error)
            entry.need(
                "packages",
                packages,
                f"packages that cannot be installed: {packages}: {why}",
                f"change requirements.txt, or functory environment build {name}",
            )
        else:
            entry.need("packages", packages, f"its packages: {packages}", "the import installs them")

    def _distributions(self, requirements: Sequence[str], resolved: Resolved) -> list[str]:
        """The distributions of an environment; without one, those that are asked for."""
        names = [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in requirements]
        if self._engine is None or resolved.environment is None:
            return names
        from functory.workers.environments.requirements import pinned

        return [
            name for name, _ in pinned(environments.load(self._engine.database, resolved.environment)["lock"])
        ]

    def _inspect_once(
        self, source: str, name: str, *, packages: Sequence[str] = (), modules: Modules | None = None
    ) -> Signature:
        """Inspect a function; actions with the same modules are imported once."""
        key = tuple(packages), frozenset((modules or {}).items())
        if key not in self._inspected:
            self._inspected[key] = self._inspect(source, name, packages=packages, modules=modules)
        return self._inspected[key]

    def _import_rule(self, entry: Entry) -> None:
        fields = dict(entry.trigger or entry.schedule or {})
        name = fields.pop("name")
        self._check_function(entry, fields["function"])
        if entry.trigger is not None:
            definition.parse(fields)
        elif "at" in fields and parse_timestamp(fields["at"][0], UTC) <= datetime.now(UTC):
            raise Invalid(f"its date is past: {fields['at'][0]}", try_="make a schedule with another date")
        if self._engine is None:
            return
        if entry.trigger is not None:
            self._save_trigger(self._engine, entry, name, fields)
        else:
            self._save_schedule(self._engine, entry, name, fields)

    def _check_function(self, entry: Entry, function: str) -> None:
        """Pause a rule whose action cannot run, or does not run yet."""
        action = next((e for e in self._pack.entries if e.kind == "action" and e.became == function), None)
        if action is None or entry.outcome == "paused":
            return
        if action.is_left_out:
            entry.pause(
                f"its function {function} cannot be imported; the report says why",
                f"write a function {function} that does the same",
            )
        if action.needs:
            lacks = ", ".join(need.what for need in action.needs)
            verb = "trigger" if entry.trigger is not None else "schedule"
            entry.pause(f"its function {function} needs {lacks}", f"functory {verb} resume {entry.became}")

    def _save_trigger(self, engine: Functory, entry: Entry, name: str, fields: dict[str, Any]) -> None:
        if entry.webhook is not None:
            _save_webhook(engine, dict(entry.webhook))
        try:
            known = engine.triggers.get(name)
        except NotFound:
            known = None
        # A disabled rule starts in shadow mode, so that the trigger cannot fire before it is paused.
        rests = known is None and entry.outcome == "paused"
        entry.notes += engine.save_trigger(name, shadow=rests, **fields)["warnings"]
        if rests:
            engine.triggers.pause(name, note=entry.why, author=engine.author)

    def _save_schedule(self, engine: Functory, entry: Entry, name: str, fields: dict[str, Any]) -> None:
        try:
            engine.schedules.get(name)
        except NotFound:
            rests = entry.outcome == "paused"
        else:
            rests = False
        entry.notes += engine.schedules.save(name, **fields)["warnings"]
        if rests:
            engine.schedules.pause(name, note=entry.why)


def _save_webhook(engine: Functory, webhook: dict[str, Any]) -> None:
    """Save the webhook of a rule. Several rules may share one: it shows the headers that any of them tests."""
    name = webhook.pop("name")
    try:
        known = engine.sources.get("webhook", name)["config"]
    except NotFound:
        known = {}
    headers = sorted({*webhook["headers"], *known.get("headers", ())})
    engine.sources.save("webhook", name, webhook | known | {"headers": headers}, author=engine.author)


def _last_line(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "unknown"
