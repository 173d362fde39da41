"""Makes the signature of a function from what the child has found out about it."""

from __future__ import annotations

from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.protocol.frames import Described
from functory.workers.sandbox.protocol.job import Signature
from functory.workers.sandbox.supervision.verdict import Verdict

_NOTHING = Described(input_schema={"type": "object"}, output_schema=None, problems=[], final=False)


def signature_of(found: Described | None, verdict: Verdict | None, name: str) -> Signature:
    """Return the signature of function ``name``; how the inspection ended is among its problems."""
    described = found or _NOTHING
    problems = [escape_control_characters(text) for text in described.problems]
    if verdict is None or verdict.status != "succeeded":
        message = verdict.message if verdict else "no process for it"
        problems.append(f"{name}: its type hints could not be evaluated: {message}")
    return Signature(
        input_schema=described.input_schema,
        output_schema=described.output_schema,
        problems=problems,
        import_error=described.import_error and escape_control_characters(described.import_error),
        unconvertible=[escape_control_characters(text) for text in described.unconvertible],
    )
