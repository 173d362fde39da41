"""A claim as the sandbox's job, and what comes out of it as rows."""

from __future__ import annotations

from typing import Any

import msgspec

from functory.engine.executions.claim import Claim
from functory.workers.environments import preload_modules
from functory.workers.sandbox.protocol.job import Code, Grants, Job, Limits, Log, Span


def job_from_claim(claim: Claim, packages: tuple[str, ...]) -> Job:
    """What the child process gets: exact code, input, grants and limits, nothing else."""
    row, limit = claim.row, claim.limits
    by_name = {(code["name"], code["number"]): key for key, code in claim.codes.items()}
    active: dict[str, str] = {}
    for key, code in claim.codes.items():
        active.setdefault(code["name"], key)
    codes: dict[str, Code] = {}
    for key, code in claim.codes.items():
        names = {
            d["name"]: by_name.get((d["name"], d["pin"]), "")
            if d["pin"]
            else _active_version_key(claim, d["name"], active)
            for d in code["dependencies"]
        }
        imports = code["imports"] if code["declared"].get("imports") else []
        codes[key] = Code(
            name=code["name"],
            version=code["number"],
            source=code["source"],
            is_async=code["is_async"],
            dependencies=names,
            # What was allowed beyond the declarations belongs to the whole process; the host decides about each.
            secrets=tuple(sorted({*code["secrets"], *claim.grants.secrets})),
            imports=tuple(i["name"] if isinstance(i, dict) else i for i in imports),
        )
    return Job(
        execution_id=row["id"],
        attempt=row["attempt"],
        function=row["function"],
        version=row["version"],
        root_id=row["root_id"],
        parent_execution_id=row["parent_id"],
        triggered_by=row["event_id"],
        depth=row["depth"],
        entry=f"{claim.version['name']}@{claim.version['number']}",
        codes=codes,
        input=row["input"],
        limits=Limits(
            wall_seconds=limit.timeout,
            cpu_seconds=limit.cpu_seconds(),
            memory_bytes=limit.memory_bytes,
            threads=limit.threads,
            processes=limit.processes,
            open_files=limit.open_files,
            scratch_bytes=limit.scratch_bytes,
            scratch_files=limit.scratch_files,
            result_bytes=limit.result_bytes,
            log_bytes=limit.log_bytes,
            calls=limit.calls,
        ),
        permissions=claim.grants.permissions,
        packages=packages,
        preload=tuple(module for code in claim.codes.values() for module in preload_modules(code))
        if packages
        else (),
        # What an execution saved is not trusted as what a person saved: the two never share a zygote.
        trust_domain="" if claim.version["cause_execution_id"] is None else "made",
        grants=Grants(
            hosts=claim.grants.hosts,
            read=claim.grants.read,
            write=claim.grants.write,
            subprocess=claim.grants.subprocess,
        ),
        reuse=claim.version["reuse"],
        seed=int(row["id"].replace("-", ""), 16) & 0x7FFFFFFF,
    )


def _active_version_key(claim: Claim, name: str, active: dict[str, str]) -> str:
    """The key of an unpinned dependency: the version that was active at the claim."""
    numbers = [code for code in claim.codes.values() if code["name"] == name]
    current = next((code for code in numbers if code["number"] == code["active"]), None)
    return f"{name}@{current['number']}" if current is not None else active[name]


def span_row(span: Span) -> dict[str, Any]:
    """A span as the engine stores it."""
    plain = msgspec.to_builtins(span)
    return {
        key: plain[key]
        for key in (
            "seq",
            "parent_seq",
            "function",
            "version",
            "input",
            "output",
            "error",
            "offset_seconds",
            "duration_seconds",
        )
    }


def log_row(entry: Log) -> dict[str, Any]:
    """A log line as the engine stores it."""
    return {
        "seq": entry.seq,
        "stream": entry.stream,
        "level": entry.level or "info",
        "text": entry.text,
        "offset_seconds": entry.offset_seconds,
    }
