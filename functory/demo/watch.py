"""The licence watch: from a METADATA file to a reviewed licence, from a bad update back to a good version.

Two chains run through the engine, and nothing in this module does their work for them:

    package.found → parse_metadata → output.matched → review_licence
    function.updated → validate_parse_metadata → execution.failed → roll_back → function.activated ■ guard

The functions touch no file: what they need comes in as input or from their own ``state``, what they find
goes out as result. So they run unchanged where functions may not see the file system; the report is
composed out here, from the results of the executions, which are the record in any case.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import WaitTimeout
from functory.demo import broken, functions
from functory.local import Functory, source_of

# How long anything may take before the demo says that it did not happen.
PATIENCE = 25.0
# The head of a METADATA file is what is emitted: its body is the whole README of the package.
MAX_HEAD = 60_000
# What the samples look like for which no package of this environment is an example.
MADE_SAMPLE = "Metadata-Version: 2.1\nName: an-older-package\nVersion: 1.0\nLicense: MIT\n"

BACK = "roll_back-on-execution_failed-validate_parse_metadata"


def metadata_files() -> dict[str, str]:
    """The METADATA files of the packages of this environment: short path → head of the file."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(Path(entry).resolve() for entry in sys.path if entry):
        for file in sorted(folder.glob("*.dist-info/METADATA")):
            head = file.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
            found.setdefault(f"{file.parent.name}/{file.name}", head[:MAX_HEAD])
    return found


class LicenceWatch:
    """The functions, triggers and steps of the demo on one engine."""

    def __init__(self, engine: Functory) -> None:
        self.engine = engine
        self.files = metadata_files()
        self.roots: dict[str, str] = {}

    def save(self) -> tuple[int, int]:
        """Save functions and triggers. Returns how many of each."""
        register, engine = self.engine.register_function, self.engine
        register(functions.read_headers)
        register(functions.parse_metadata, dependencies=["read_headers"], output_patterns=functions.PATTERNS)
        register(functions.review_licence)
        register(functions.validate_parse_metadata)
        register(functions.roll_back, permissions=["functions:write"])
        engine.register_trigger(
            "parse-each-package",
            on={"type": ["package.found"]},
            function="parse_metadata",
            input={"text": "{{ event.data.head }}"},
        )
        engine.register_trigger(
            "review-each-find",
            on={"type": ["output.matched"], "subject": ["parse_metadata"]},
            function="review_licence",
            input={"found": "{{ event.data.output }}", "pattern": "{{ event.data.pattern }}"},
        )
        engine.register_trigger(
            "validate-each-change",
            on={"type": ["function.updated", "function.activated"], "subject": ["parse_metadata"]},
            function="validate_parse_metadata",
        )
        # The spelling that users of BabyAGI know; the trigger's name is made from its parts. It closes a
        # cycle, which is refused unless it is acknowledged with a bound: the demo shows what holds it.
        engine.register_trigger(
            event_type="execution_failed",
            target_function="validate_parse_metadata",
            trigger_function="roll_back",
            guards={"acknowledge_cycle": 1},
        )
        return len(engine.functions.list()), len(engine.triggers.list())

    def emit(self, path: str) -> str:
        """Tell of one file. Returns the event's id."""
        id_ = self.engine.emit("package.found", {"path": path, "head": self.files[path]}, subject=path)
        self.roots[path] = id_
        return id_

    def examples(self) -> list[str]:
        """Up to three files to show in full: an ordinary licence, a copyleft one, and one that names none."""
        found: dict[str, str] = {}
        for path, head in self.files.items():
            found.setdefault(_kind(functions.parse_metadata(head)["licence"]), path)
        return [found[kind] for kind in ("ordinary", "copyleft", "missing") if kind in found]

    def finished(self, told: Callable[[int], None]) -> None:
        """Wait until nothing is left to do; ``told`` hears again and again how many files are parsed.

        Raises :class:`WaitTimeout`.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            told(len(self.engine.executions.list(function="parse_metadata", state="succeeded", limit=1000)))
            try:
                self.engine.settle(0.1)
                return
            except WaitTimeout:
                continue
        self.engine.settle(0.1)

    def store_samples(self) -> int:
        """Give ``validate_parse_metadata`` its samples: real heads, one for each way to name a licence, with
        what the good version says of them. Returns how many."""
        samples: dict[str, dict[str, Any]] = {}
        for row in self._results("parse_metadata"):
            head, found = row["input"]["text"], row["result"]
            if _kind(found["licence"]) == "ordinary" and len(head) < 8000:
                samples.setdefault(found["said_in"], {"text": head, "expected": found})
        made = {"package": "an-older-package", "version": "1.0", "licence": "MIT", "said_in": "license"}
        samples.setdefault("license", {"text": MADE_SAMPLE, "expected": made})
        # The newest spelling first: the broken version still reads that one.
        ordered = [samples[key] for key in ("license-expression", "license", "classifier") if key in samples]
        self.engine.state.set("validate_parse_metadata", "samples", ordered)
        return len(ordered)

    def break_it(self) -> str:
        """Update ``parse_metadata`` to the broken version. Returns the id of the event that tells of it."""
        source = source_of(broken.parse_metadata, frozenset({"read_headers"}))
        self.engine.functions.update("parse_metadata", source=source, author="demo")
        return self.engine.events.list(type_="function.updated", subject="parse_metadata", limit=1)[0]["id"]

    def report(self) -> list[dict[str, Any]]:
        """The rows of the report: what the executions of ``review_licence`` have found, by package."""
        return sorted(
            (row["result"] for row in self._results("review_licence")), key=lambda r: r["package"].lower()
        )

    def faults(self, root: str) -> list[str]:
        """What did not happen as it should have, by the database and by plain calls of the functions."""
        engine, wrong = self.engine, []
        parsed = {path: functions.parse_metadata(head) for path, head in self.files.items()}
        expected = sorted(
            str(found["package"]) for found in parsed.values() if _kind(found["licence"]) != "ordinary"
        )
        reviewed = sorted(row["package"] for row in self.report())
        if not reviewed or reviewed != expected:
            wrong.append(f"the report names {reviewed or 'nothing'}, expected {expected or 'something'}")
        for path, id_ in self.roots.items():
            ran = [row for row in engine.executions.list(root_id=id_) if row["function"] == "parse_metadata"]
            if [row["state"] for row in ran] != ["succeeded"] or ran[0]["result"] != parsed[path]:
                wrong.append(f"{path} was not parsed once and rightly: {[row['state'] for row in ran]}")
        active = engine.functions.get("parse_metadata")
        if active["number"] != 1 or active["latest"] != 2:
            wrong.append(
                f"parse_metadata is at version {active['number']} of {active['latest']}, expected 1 of 2"
            )
        nodes = [node for top in engine.lineage.tree(root).nodes for node in top.walk()]
        states = sorted(
            (n.row["function"], n.row["state"])
            for n in nodes
            if n.kind == "execution" and n.row["trigger_id"]
        )
        if states != [("roll_back", "succeeded"), ("validate_parse_metadata", "failed")]:
            wrong.append(f"the update started {states}, expected one failed validation and one roll back")
        stops = [(n.row["trigger"], n.row["reason"]) for n in nodes if n.kind == "suppressed"]
        if stops != [("validate-each-change", "cycle")]:
            wrong.append(f"the guard stopped {stops or 'nothing'}, expected validate-each-change (cycle)")
        return wrong

    def _results(self, function: str) -> list[dict[str, Any]]:
        rows = self.engine.executions.list(function=function, state="succeeded", limit=1000)
        return [row for row in rows if row["root_id"] in set(self.roots.values())]


def change() -> str:
    """The line of the broken version that a person would call tidier."""
    return next(
        line.strip() for line in inspect.getsource(broken.parse_metadata).splitlines() if '"licence"' in line
    )


def _kind(licence: str | None) -> str:
    if licence is None:
        return "missing"
    words = (entry["wildcard"].strip("*") for entry in functions.PATTERNS["copyleft"]["licence"])
    return "copyleft" if any(word in licence for word in words) else "ordinary"
