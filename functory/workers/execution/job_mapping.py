"""Maps a claim to the sandbox's job, and the outcome of its run to the result and rows that the engine stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.access.secrets import Secrets
from functory.engine.errors import FunctoryError, Invalid, NotFound, Unavailable
from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.functions.process_reuse import declared_reuse, is_pure
from functory.engine.serialization import json_schema
from functory.workers.environments import preload_modules
from functory.workers.redaction.redactor import Redactor
from functory.workers.sandbox.protocol.job import ChildGrants, Job, Log, Outcome, Span
from functory.workers.version_jobs import sandbox_codes, sandbox_limits

# The state after each status of the sandbox; every other status is a crash.
_STATES = {
    "succeeded": "succeeded",
    "failed": "failed",
    "timed_out": "timed_out",
    "killed": "cancelled",
    "out_of_memory": "failed",
    "invalid_input": "failed",
    "output_too_large": "failed",
    "not_serializable": "failed",
    "scratch_full": "failed",
}

# Another attempt would end in the same way.
_FINAL = frozenset({"invalid_input", "output_too_large", "not_serializable", "protocol_error"})


def job_from_claim(claim: Claim, packages: tuple[str, ...], lineage: Mapping[str, str]) -> Job:
    """Build the job of a child process: the claim's exact code, input, grants and limits.

    ``packages`` are the folders of the packages that it may import, ``lineage`` the headers for its HTTP requests.
    """
    row, limit = claim.row, claim.limits
    reuse = declared_reuse(claim.version.reuse, claim.version.declared)
    return Job(
        execution_id=row.id,
        attempt=row.attempt,
        function=row.function,
        version=row.version,
        root_id=row.root_id,
        parent_execution_id=row.parent_id,
        triggered_by=row.event_id,
        depth=row.depth,
        entry=claim.version.key,
        codes=sandbox_codes(claim.codes, claim.grants.secrets),
        input=row.input,
        limits=sandbox_limits(limit),
        packages=packages,
        preload=tuple(
            module
            for code in claim.codes.values()
            for module in preload_modules(code)
            if module in claim.grants.preload
        )
        if packages
        else (),
        # A version saved by an execution is trusted less than a person's: the two never share a zygote.
        trust_domain="" if claim.version.cause_execution_id is None else "made",
        grants=ChildGrants(
            hosts=claim.grants.hosts,
            read=claim.grants.read,
            write=claim.grants.write,
            subprocess=claim.grants.subprocess,
        ),
        lineage=dict(lineage),
        reuse=reuse or is_pure(claim.codes.values(), claim.grants),
        tidy=reuse is None,
        seed=_seed(row.id),
    )


def job_of_same_version(job: Job, claim: Claim) -> Job:
    """Build the job of a claim from one of the same version, codes and grants."""
    row = claim.row
    return msgspec.structs.replace(
        job,
        execution_id=row.id,
        attempt=row.attempt,
        root_id=row.root_id,
        parent_execution_id=row.parent_id,
        triggered_by=row.event_id,
        depth=row.depth,
        input=row.input,
        seed=_seed(row.id),
    )


def _seed(id_: str) -> int:
    """The seed of ``random``: the same for every attempt."""
    return int(id_.replace("-", ""), 16) & 0x7FFFFFFF


def refuse_claim(claim: Claim, secrets: Secrets, protected_paths: ProtectedPaths) -> AttemptResult | None:
    """The result of a claim that cannot start; None when it can.

    Raises :class:`functory.engine.errors.Unavailable` while the database is unavailable.
    """
    name = f"{claim.row.function} v{claim.row.version}"
    if claim.row.cancel_requested_at is not None:
        return AttemptResult(
            "cancelled", error={"type": "Cancelled", "message": "cancelled before this attempt began"}
        )
    try:
        if claim.problem is not None:
            raise claim.problem
        json_schema.check(claim.version.input_schema, claim.row.input, f"input of {name}")
        for kind, value in claim.grants.items():
            if kind in ("read", "write"):
                # Checked again: since the save a link or this machine's folders may lead elsewhere.
                protected_paths.check(kind, value)
        missing = secrets.missing(list(claim.grants.secrets))
        if missing:
            raise NotFound(
                f"{name} needs the secret {missing[0]}",
                "the secret is declared but not set",
                f"functory secret set {missing[0]}",
            )
    except Unavailable:
        raise
    except FunctoryError as error:
        return AttemptResult("failed", error=error_record(error), retryable=False)
    return None


def attempt_result(claim: Claim, outcome: Outcome, redact: Redactor) -> AttemptResult:
    """The result that is stored for an outcome: output checked against its schema, secrets redacted."""
    state = _STATES.get(outcome.status, "crashed")
    error = outcome.error
    if outcome.status == "killed":
        error = {"type": "Cancelled", "message": outcome.kill_reason or "cancelled"}
    retryable = outcome.status not in _FINAL
    if state == "succeeded" and claim.version.declared.get("validate_output"):
        try:
            json_schema.check(
                claim.version.output_schema,
                outcome.result,
                f"output of {claim.row.function} v{claim.row.version}",
            )
        except Invalid as wrong:
            state, error, retryable = "failed", {"type": "InvalidOutput", "message": str(wrong)}, False
    lines = [log_row(entry) for entry in outcome.logs]
    return AttemptResult(
        state,
        result=redact(outcome.result),
        warnings=redact(outcome.warnings),
        error=redact(error),
        retryable=retryable,
        error_types=outcome.error_types or [f":{(outcome.error or {}).get('type', '')}"],
        final=outcome.final,
        retry_after=outcome.retry_after,
        spans=[redact(span_row(span)) for span in outcome.spans],
        logs=[redact(row) for row in claim.log_policy.kept(claim.id, lines, failed=state != "succeeded")],
        result_bytes=outcome.result_bytes,
        duration_seconds=outcome.duration_seconds,
        waited_seconds=outcome.waited_seconds,
    )


def error_record(error: FunctoryError) -> dict[str, Any]:
    """An error of the engine as an execution stores it."""
    return {"type": type(error).__name__, "message": str(error)}


def span_row(span: Span) -> dict[str, Any]:
    """A span as the engine stores it."""
    plain = msgspec.to_builtins(span)
    return {key: plain[key] for key in plain if not key.endswith("_truncated")}


def log_row(entry: Log) -> dict[str, Any]:
    """A log line as the engine stores it."""
    return msgspec.to_builtins(entry) | {"level": entry.level or "info"}
