"""Reads the last frame of a run: how the run ended, and the error that is stored. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.protocol.frames import ENVELOPE_BYTES, ErrorInfo, Failed, Finished
from functory.workers.sandbox.protocol.job import ChildLimits, Status
from functory.workers.sandbox.supervision.verdict import Verdict

TOO_LARGE = "OutputTooLarge"
_SUCCEEDED = Verdict("succeeded")
_FAILURES: dict[str, Status] = {
    "setup": "sandbox_error",
    "input": "invalid_input",
    "code": "failed",
    "output": "output_too_large",
    "result": "not_serializable",
}


def verdict_of(frame: Finished | Failed, size: int, limits: ChildLimits) -> Verdict:
    """Return how a run ended whose last frame has ``size`` bytes; its type is ``TOO_LARGE`` if nothing may be kept."""
    if isinstance(frame, Finished):
        if size > limits.result_bytes + 2 * ENVELOPE_BYTES:
            return Verdict(
                "output_too_large",
                f"its result has {size} bytes; at most {limits.result_bytes} are stored",
                type=TOO_LARGE,
            )
        return _SUCCEEDED
    if frame.kind == "code" and frame.error.type == "MemoryError":
        return Verdict("out_of_memory")
    return Verdict(_FAILURES[frame.kind])


def error_of(failed: Failed, limits: ChildLimits) -> dict[str, Any]:
    """Return the error that a child has reported, without control characters and with advice where there is some."""
    error = _plain(failed.error)
    if failed.kind == "setup":
        error["message"] = (
            f"it could not be confined and was not started: {error['type']}: {error['message']}\n"
            "try: functory doctor"
        )
        error["type"] = "SandboxError"
    if failed.kind == "code" and error["type"] == "MemoryError":
        error["message"] = (
            f"{error['message']}\nit may use {limits.memory_bytes} bytes of memory".lstrip()
            + "\ntry: work on smaller pieces, or raise memory_bytes"
        )
    return error


def failure_fields(failed: Failed, limits: ChildLimits) -> dict[str, Any]:
    """Return the fields of an ``Outcome`` about the failure that a child has reported."""
    return {
        "error": error_of(failed, limits),
        "error_types": failed.types,
        "final": failed.final,
        "retry_after": failed.retry_after,
    }


def _plain(info: ErrorInfo) -> dict[str, Any]:
    error = msgspec.to_builtins(info)
    for field in ("type", "message", "traceback"):
        error[field] = escape_control_characters(error[field])
    for line in error["frames"]:
        line["function"], line["code"] = (
            escape_control_characters(line["function"]),
            escape_control_characters(line["code"]),
        )
    return error
