"""The licence watch: from a file in a folder to a reviewed licence, from a bad update back to a good version.

The engine runs three chains by itself:

    file.created → parse_metadata → output.matched → review_licence → execution.succeeded → licence_report
    schedule.due → licence_report
    function.updated → validate_parse_metadata → execution.failed → roll_back → function.activated ■ guard

This module does only what a person would do: it puts files into the folder and changes a function.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from functory.client.functory import Functory
from functory.demo import broken_parser, functions
from functory.engine.errors import WaitTimeout

# Longest time to wait for one step of the demo.
WAIT_TIMEOUT_SECONDS = 40.0
# Sample for licence fields that no package of this environment has.
MADE_SAMPLE = "Metadata-Version: 2.1\nName: an-older-package\nVersion: 1.0\nLicense: MIT\n"
# A file that has not changed for this time is complete.
SETTLE = "100ms"
REPORT_INTERVAL = "1s"


def metadata_files() -> dict[str, Path]:
    """The METADATA files of the packages of this environment: name in the inbox → file."""
    found: dict[str, Path] = {}
    for folder in dict.fromkeys(Path(entry).resolve() for entry in sys.path if entry):
        for file in sorted(folder.glob("*.dist-info/METADATA")):
            found.setdefault(file.parent.name.removesuffix(".dist-info") + ".METADATA", file)
    return found


class LicenceWatch:
    """The functions, triggers, sources and steps of the demo on one engine; ``home`` has the folders that they use."""

    def __init__(self, engine: Functory, home: Path) -> None:
        self.engine = engine
        self.files = metadata_files()
        self.inbox = home / "inbox"
        self.samples = home / "samples"
        self.report_file = home / "report" / "licences.md"
        self.readable = {"read": [str(self.inbox), str(self.samples)]}
        # In tier A each execution runs as a user of its own, so the folders need permissions for all users. The folder
        # around them keeps other users out.
        for folder, mode in ((self.inbox, 0o755), (self.samples, 0o755), (self.report_file.parent, 0o777)):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)

    def save(self) -> None:
        """Save functions, triggers and sources: the watched folder, and the schedule that writes the report."""
        register, engine = self.engine.register_function, self.engine
        register(functions.read_headers)
        self._register_parser(functions.parse_metadata)
        register(functions.review_licence)
        register(functions.licence_report, files={"write": [str(self.report_file.parent)]})
        register(functions.validate_parse_metadata)
        # It gives no version more rights than it has itself.
        register(functions.roll_back, permissions=["functions:write"], files=self.readable)
        engine.register_trigger(
            "parse-each-file",
            on={"type": ["file.created"], "data": {"watch": ["inbox"]}},
            function="parse_metadata",
            input={"path": "{{ event.data.path }}"},
        )
        engine.register_trigger(
            "review-each-find",
            on={"type": ["output.matched"], "subject": ["parse_metadata"]},
            function="review_licence",
            input={"found": "{{ event.data.output }}", "pattern": "{{ event.data.pattern }}"},
        )
        # It reads and writes its state: one at a time.
        engine.register_trigger(
            "keep-each-review",
            on={"type": ["execution.succeeded"], "subject": ["review_licence"]},
            function="licence_report",
            flow={"concurrency": {"limit": 1}},
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
        engine.sources.save(
            "file",
            "inbox",
            {"path": str(self.inbox), "patterns": ["*.METADATA"], "settle": SETTLE, "initial": "events"},
            author=engine.author,
        )
        engine.schedules.save(
            "report", every=REPORT_INTERVAL, function="licence_report", data={"file": str(self.report_file)}
        )

    def _register_parser(self, parse_metadata: Callable[..., Any]) -> None:
        """Save a version of ``parse_metadata``. All versions declare the same; only the source differs."""
        self.engine.register_function(
            parse_metadata,
            dependencies=["read_headers"],
            output_patterns=functions.PATTERNS,
            files=self.readable,
        )

    def drop_file(self, name: str) -> None:
        """Put a file into the folder, as a user would."""
        _write_readable(self.inbox / name, self.files[name].read_bytes())

    def wait_for_event(self, name: str) -> str:
        """Wait for a file's event, and for all that follows from it. Returns its id. Raises :class:`WaitTimeout`."""
        found = self._wait_for(
            lambda: self.engine.events.list(type_="file.created", subject=str(self.inbox / name), limit=1),
            f"no event of {name}",
        )
        self.engine.settle(WAIT_TIMEOUT_SECONDS, root_id=found[0]["id"])
        return found[0]["id"]

    def examples(self) -> list[str]:
        """Up to three files to show in full: an ordinary licence, a copyleft one, and one that names none."""
        found: dict[str, str] = {}
        for name, file in self.files.items():
            found.setdefault(_licence_category(functions.parse_metadata(str(file))["licence"]), name)
        return [found[kind] for kind in ("ordinary", "copyleft", "missing") if kind in found]

    def wait_until_parsed(self, on_progress: Callable[[int], None]) -> None:
        """Wait until every file is parsed; ``on_progress`` receives the number of parsed files repeatedly.

        Raises :class:`WaitTimeout`.
        """

        def all_parsed() -> bool:
            done = len(self.engine.executions.list(function="parse_metadata", state="succeeded", limit=1000))
            on_progress(done)
            return done >= min(len(self.files), 1000)

        self._wait_for(all_parsed, "not every file was parsed")
        self.engine.settle(WAIT_TIMEOUT_SECONDS)

    def store_samples(self) -> int:
        """Give ``validate_parse_metadata`` its samples: real files, one for each way to name a licence, with the
        results of the good version. Returns their number."""
        samples: dict[str, dict[str, Any]] = {}
        for row in self._results("parse_metadata"):
            path, found = row["input"]["path"], row["result"]
            if _licence_category(found["licence"]) == "ordinary":
                samples.setdefault(found["said_in"], {"path": path, "expected": found})
        older = self.samples / "an-older-package.METADATA"
        _write_readable(older, MADE_SAMPLE.encode())
        made = {"package": "an-older-package", "version": "1.0", "licence": "MIT", "said_in": "license"}
        samples.setdefault("license", {"path": str(older), "expected": made})
        # The newest spelling first: the broken version still reads that one.
        ordered = [samples[key] for key in ("license-expression", "license", "classifier") if key in samples]
        self.engine.state.set("validate_parse_metadata", "samples", ordered)
        return len(ordered)

    def save_broken_version(self) -> str:
        """Update ``parse_metadata`` to the broken version, and wait for all that follows.

        Returns the id of the event of the update. Raises :class:`WaitTimeout`.
        """
        self._register_parser(broken_parser.parse_metadata)
        update = self.engine.events.list(type_="function.updated", subject="parse_metadata", limit=1)[0]["id"]
        self.engine.settle(WAIT_TIMEOUT_SECONDS, root_id=update)
        return update

    def wait_for_report(self) -> None:
        """Wait for a run of the schedule that began after now. Raises :class:`WaitTimeout`."""
        last = self.engine.events.list(type_="schedule.due", subject="report", limit=1)
        after = last[0]["id"] if last else ""

        def ran() -> list[dict[str, Any]]:
            rows = self.engine.executions.list(function="licence_report", state="succeeded", payloads=True)
            return [
                row
                for row in rows
                if row["cause"] == "trigger" and row["root_id"] > after and _wrote_report(row)
            ]

        self._wait_for(ran, "the schedule did not run the report")

    def report(self) -> list[dict[str, Any]]:
        """Return the rows of the report: results of ``review_licence``, by package."""
        return sorted(
            (row["result"] for row in self._results("review_licence")), key=lambda r: r["package"].lower()
        )

    def faults(self, root: str) -> list[str]:
        """Compare the database with plain calls of the functions. Returns the differences."""
        return [*self._wrong_files(), *self._wrong_report(), *self._wrong_update(root)]

    def _wrong_files(self) -> list[str]:
        """Check that each file made one event, and was parsed once and correctly in the tree of that event."""
        wrong = []
        events: dict[str, list[str]] = {}
        for event in self._file_events():
            events.setdefault(Path(event["subject"]).name, []).append(event["id"])
        for name, file in self.files.items():
            found = events.get(name, [])
            if len(found) != 1:
                wrong.append(f"{name} became {len(found)} events, expected one")
                continue
            ran = [
                row
                for row in self.engine.executions.list(root_id=found[0], payloads=True)
                if row["function"] == "parse_metadata"
            ]
            expected = functions.parse_metadata(str(file))
            if [row["state"] for row in ran] != ["succeeded"] or ran[0]["result"] != expected:
                wrong.append(f"{name} was not parsed once and rightly: {[row['state'] for row in ran]}")
        return wrong

    def _wrong_report(self) -> list[str]:
        """Check that each licence that needs a review got one, and that the schedule's report contains all of
        them."""
        wrong = []
        parsed = [functions.parse_metadata(str(file)) for file in self.files.values()]
        expected = sorted(
            str(found["package"]) for found in parsed if _licence_category(found["licence"]) != "ordinary"
        )
        reviewed = sorted(row["package"] for row in self.report())
        if not reviewed or reviewed != expected:
            wrong.append(f"{reviewed or 'nothing'} was reviewed, expected {expected or 'something'}")
        written = self.report_file.read_text().splitlines()[4:] if self.report_file.exists() else []
        if len(written) != len(set(expected)):
            wrong.append(f"the report has {len(written)} lines, expected {len(set(expected))}")
        ticks = self.engine.schedules.ticks("report", 1000)
        again = [time for time, count in Counter(tick["fire_time"] for tick in ticks).items() if count > 1]
        if not ticks or again:
            wrong.append(f"the schedule has {len(ticks)} ticks, and fired again at {again}")
        return wrong

    def _wrong_update(self, root: str) -> list[str]:
        """Check that the bad version was rolled back, and that the loop was stopped."""
        wrong = []
        active = self.engine.functions.get("parse_metadata")
        if active["number"] != 1 or active["latest"] != 2:
            wrong.append(
                f"parse_metadata is at version {active['number']} of {active['latest']}, expected 1 of 2"
            )
        nodes = [node for top in self.engine.lineage.tree(root).nodes for node in top.walk()]
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

    def _file_events(self) -> list[dict[str, Any]]:
        return self.engine.events.list(type_="file.created", limit=1000)

    def _results(self, function: str) -> list[dict[str, Any]]:
        rows = self.engine.executions.list(function=function, state="succeeded", limit=1000)
        roots = {event["id"] for event in self._file_events()}
        return self.engine.executions.wait(row["id"] for row in rows if row["root_id"] in roots)

    @staticmethod
    def _wait_for(query: Callable[[], Any], what: str) -> Any:
        """Call ``query`` until its result is true. Raises :class:`WaitTimeout`."""
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while True:
            found = query()
            if found:
                return found
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    what, f"within {WAIT_TIMEOUT_SECONDS:g} s", "functory demo --keep, and look into demo.log"
                )
            time.sleep(0.05)


def _write_readable(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o644)


def _wrote_report(row: dict[str, Any]) -> bool:
    """True for an execution of ``licence_report`` that wrote the file."""
    given = next(iter(row["input"].values()), None)
    return isinstance(given, dict) and given.get("type") == "schedule.due"


def _licence_category(licence: str | None) -> str:
    if licence is None:
        return "missing"
    words = (entry["wildcard"].strip("*") for entry in functions.PATTERNS["copyleft"]["licence"])
    return "copyleft" if any(word in licence for word in words) else "ordinary"
