"""What the sandbox gets of stored versions, for executions and for the tests of proposals: their sources and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from functory.engine.functions import limits as function_limits
from functory.engine.functions.version_row import VersionCode
from functory.workers.sandbox.protocol.job import ChildLimits, Code


def sandbox_limits(limit: function_limits.Limits) -> ChildLimits:
    """The limits that the sandbox enforces, of those that a version has."""
    return ChildLimits(
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
    )


def sandbox_codes(codes: Mapping[str, VersionCode], granted_secrets: Iterable[str] = ()) -> dict[str, Code]:
    """The sources of versions that run in one process by their keys, each with the keys of its dependencies."""
    by_name = {(code.name, code.number): key for key, code in codes.items()}
    # Of an unpinned dependency the active version, else any that is there.
    active = {code.name: key for key, code in reversed(list(codes.items()))}
    active |= {code.name: key for key, code in codes.items() if code.is_active}
    found: dict[str, Code] = {}
    for key, code in codes.items():
        found[key] = Code(
            name=code.name,
            version=code.number,
            source=code.source,
            is_async=code.is_async,
            dependencies={
                d["name"]: by_name.get((d["name"], d["pin"]), "") if d["pin"] else active[d["name"]]
                for d in code.dependencies
            },
            # A secret that an operator granted is usable by the whole process; the host checks each request.
            secrets=tuple(sorted({*code.secrets, *granted_secrets})),
            imports=tuple(i["name"] if isinstance(i, dict) else i for i in code.declared_imports),
            modules=dict(code.modules),
        )
    return found
