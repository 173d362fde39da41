"""Events per second that one process matches against many triggers: the index beside other ways.

    python -m benchmarks.router [--triggers N] [--profile scoped|broad] [--all] [--json] [--event-ruler JAR]

The ways: our ``index``; a plain ``scan`` of the same compiled patterns; the matcher of ``moto``, when it is
installed; ``event-ruler``, when ``--event-ruler`` names a JAR that speaks the protocol below. Every figure
includes parsing the event's JSON. All must find the same: a CRC over the ids that match the first DIGEST
events has to be equal, or the run fails. Rates are per second of processor time, at the fastest of a few passes,
since others use the machine too; ``wall`` is by the clock, the median of the passes. p50 and p99 are of single
events, in processor time.

The protocol: ``java -jar JAR`` reads lines ``pattern ID JSON``, then ``event JSON``, then ``end``. It adds the
patterns, matches every event, and prints one JSON object with ``digest`` (CRC-32, unsigned, over the sorted ids
joined with commas and ended with a newline, for each of the first DIGEST events), ``events_per_second``,
``p50_us``, ``p99_us``, ``load_seconds``, ``replace_us`` and ``bytes_per_trigger`` (null for what it cannot say).
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import orjson

from benchmarks import workload
from functory.triggers.index import Index
from functory.triggers.patterns import Pattern, compile_pattern, flatten

SIZES = (10, 100, 1_000, 10_000)
LARGEST = 100_000
# Matched first, for the digest.
DIGEST_EVENTS = 2_000
EVENTS = 6_000
PASSES = 5
BLOCK = 250
# Ways that ask every trigger: above these numbers of triggers they would take minutes.
MAX_TRIGGERS = {"scan": 10_000, "moto": 1_000}
# A slow way is timed for so long (seconds), and no more.
TIME_LIMIT_SECONDS = 2.0
REPLACEMENTS = 2_000

Match = Callable[[bytes], Sequence[str]]
Rules = Sequence[tuple[str, dict[str, Any]]]


def run(
    *,
    quiet: bool = False,
    sizes: Iterable[int] = SIZES,
    profiles: Iterable[str] = ("scoped", "broad"),
    event_ruler: str | None = None,
) -> dict[str, Any]:
    """Measure every way at every size; prints lines unless ``quiet``. Returns ``{"rows": [...]}``.

    Raises RuntimeError when two ways find different triggers.
    """
    rows: list[dict[str, Any]] = []
    for profile in profiles:
        lines = workload.events(profile, EVENTS)
        everything = list(workload.triggers(profile, max(sizes)))
        for size in sizes:
            for row in measure(everything[:size], lines, event_ruler):
                rows.append({"profile": profile, "triggers": size, **row})
                if not quiet:
                    show(rows[-1])
    return {"rows": rows}


def measure(rules: Rules, lines: Sequence[bytes], event_ruler: str | None) -> list[dict[str, Any]]:
    """One row for each way."""
    rows = [
        {"way": "index"} | measure_index(rules, lines),
        {"way": "scan"} | measure_slow("scan", rules, lines, scan),
        {"way": "moto"} | measure_slow("moto", rules, lines, moto),
    ]
    if event_ruler is not None:
        rows.append({"way": "event-ruler"} | ask_event_ruler(event_ruler, rules, lines))
    digests = {row["digest"] for row in rows if row.get("digest") is not None}
    if len(digests) > 1:
        found = {row["way"]: row.get("digest") for row in rows}
        raise RuntimeError(f"the ways find different triggers among {len(rules)}: {found}")
    return rows


def measure_index(rules: Rules, lines: Sequence[bytes]) -> dict[str, Any]:
    """The index, with its memory and the time to replace a trigger."""
    bytes_each = memory(rules)
    patterns = [(id_, compile_pattern(source)) for id_, source in rules]
    start = time.process_time()
    index = build_index(patterns)
    index.match({})
    load = time.process_time() - start

    def match(line: bytes) -> list[str]:
        return index.match(orjson.loads(line))

    crc, matches = digest(match, lines)
    gc.collect()
    figures = {
        "digest": crc,
        "matches": matches,
        **measure_rates(match, lines),
        "load_seconds": load,
        **bytes_each,
    }
    some = list(
        itertools.islice(itertools.cycle(patterns[:: max(1, len(patterns) // REPLACEMENTS)]), REPLACEMENTS)
    )
    start = time.process_time()
    for id_, pattern in some:
        index.add(id_, pattern)
    figures["replace_us"] = (time.process_time() - start) / len(some) * 1e6
    return figures | {"candidates": statistics.mean(index.candidates(orjson.loads(line)) for line in lines)}


def build_index(patterns: Iterable[tuple[str, Pattern]]) -> Index:
    """An index of these patterns."""
    index = Index()
    for id_, pattern in patterns:
        index.add(id_, pattern)
    return index


def memory(rules: Rules) -> dict[str, float]:
    """Bytes a trigger, by what Python allocates: of the compiled patterns, and of the index over them."""
    tracemalloc.start()
    try:
        patterns = [(id_, compile_pattern(source)) for id_, source in rules]
        gc.collect()
        compiled = tracemalloc.get_traced_memory()[0]
        index = build_index(patterns)
        index.match({})
        gc.collect()
        total = tracemalloc.get_traced_memory()[0]
        return {
            "pattern_bytes_per_trigger": compiled / len(rules),
            "bytes_per_trigger": (total - compiled) / len(rules),
        }
    finally:
        tracemalloc.stop()


def scan(rules: Rules) -> Match:
    """Ask every compiled pattern."""
    patterns = [(id_, compile_pattern(source)) for id_, source in rules]

    def match(line: bytes) -> list[str]:
        flat = flatten(orjson.loads(line))
        return [id_ for id_, pattern in patterns if pattern.matches(flat)]

    return match


def moto(rules: Rules) -> Match:
    """Ask moto's matcher, rule by rule. Raises LookupError when moto is not installed."""
    try:
        from moto.events.models import EventPattern  # type: ignore[import-not-found]  # not ours to require
    except ImportError as error:
        raise LookupError("moto is not installed") from error
    patterns = [(id_, EventPattern.load(json.dumps(source))) for id_, source in rules]

    def match(line: bytes) -> list[str]:
        event = orjson.loads(line)
        return [id_ for id_, pattern in patterns if pattern.matches_event(event)]

    return match


def measure_slow(
    way: str, rules: Rules, lines: Sequence[bytes], make: Callable[[Rules], Match]
) -> dict[str, Any]:
    """A way that asks every trigger."""
    if len(rules) > MAX_TRIGGERS[way]:
        return {"skipped": f"not above {MAX_TRIGGERS[way]:,} triggers"}
    start = time.process_time()
    try:
        match = make(rules)
    except LookupError as error:
        return {"skipped": str(error)}
    load = time.process_time() - start
    crc, matches = digest(match, lines)
    return {"digest": crc, "matches": matches, **measure_rates(match, lines), "load_seconds": load}


def digest(match: Match, lines: Sequence[bytes]) -> tuple[int, float]:
    """The CRC-32 over the ids that match the first events, and the mean number of matches."""
    crc = found = 0
    for line in lines[:DIGEST_EVENTS]:
        ids = sorted(match(line))
        found += len(ids)
        crc = zlib.crc32(",".join(ids).encode() + b"\n", crc)
    return crc, found / min(DIGEST_EVENTS, len(lines))


def measure_rates(match: Match, lines: Sequence[bytes]) -> dict[str, float]:
    """Rates and quantiles. A block of events counts at the fastest of PASSES: what others do only adds."""
    once = []
    start = time.thread_time()
    for line in lines:
        before = time.thread_time()
        match(line)
        once.append(time.thread_time() - before)
        if time.thread_time() - start > TIME_LIMIT_SECONDS and len(once) >= 100:
            break
    lines = lines[: len(once)]
    blocks = [lines[at : at + BLOCK] for at in range(0, len(lines), BLOCK)]
    fastest, clock = [inf] * len(blocks), []
    for _ in range(PASSES):
        begun = time.perf_counter()
        for number, block in enumerate(blocks):
            start = time.thread_time()
            for line in block:
                match(line)
            fastest[number] = min(fastest[number], time.thread_time() - start)
        clock.append(len(lines) / (time.perf_counter() - begun))
    once.sort()
    return {
        "events_per_second": len(lines) / sum(fastest),
        "events_per_second_wall": statistics.median(clock),
        "p50_us": once[len(once) // 2] * 1e6,
        "p99_us": once[int(len(once) * 0.99)] * 1e6,
    }


def ask_event_ruler(jar: str, rules: Rules, lines: Sequence[bytes]) -> dict[str, Any]:
    """What the JAR says about the same triggers and events."""
    given = itertools.chain(
        (f"pattern {id_} {json.dumps(source)}\n".encode() for id_, source in rules),
        (b"event " + line + b"\n" for line in lines),
        (b"end\n",),
    )
    answer = subprocess.run(["java", "-jar", jar], input=b"".join(given), stdout=subprocess.PIPE, check=True)
    return json.loads(answer.stdout)


def show(row: dict[str, Any]) -> None:
    """One line for people."""
    name = f"{row['profile']:<7}{row['triggers']:>8,}  {row['way']:<12}"
    if "skipped" in row:
        print(f"{name}skipped: {row['skipped']}", flush=True)
        return
    parts = [f"{row['events_per_second']:>9,.0f} events/s"]
    for key, text in (
        ("events_per_second_wall", "wall {:,.0f}"),
        ("p50_us", "p50 {:,.0f} µs"),
        ("p99_us", "p99 {:,.0f} µs"),
        ("matches", "{:.3g} matches"),
        ("candidates", "{:.3g} candidates"),
        ("replace_us", "replace {:.0f} µs"),
        ("load_seconds", "load {:.2f} s"),
        ("bytes_per_trigger", "{:,.0f} B a trigger"),
        ("pattern_bytes_per_trigger", "+ {:,.0f} B its pattern"),
    ):
        if row.get(key) is not None:
            parts.append(text.format(row[key]))
    print(name + "  ".join(parts), flush=True)


def main() -> int:
    """Read the options; 1 when the ways disagree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.router", description=__doc__.splitlines()[0])
    parser.add_argument("--triggers", type=int, help="one number of triggers (default: 10 to 10,000)")
    parser.add_argument("--profile", choices=sorted(workload.PROFILES), help="default: both")
    parser.add_argument("--all", action="store_true", help=f"also {LARGEST:,} triggers")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--event-ruler", metavar="JAR", help="compare with it, see the head of this file")
    given = parser.parse_args()
    sizes = [given.triggers] if given.triggers else [*SIZES, *([LARGEST] if given.all else [])]
    if min(sizes) < 1:
        parser.error("--triggers must be positive")
    profiles = [given.profile] if given.profile else ["scoped", "broad"]
    try:
        figures = run(quiet=given.json, sizes=sizes, profiles=profiles, event_ruler=given.event_ruler)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps({"benchmark": "router", **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
