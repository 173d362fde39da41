"""Failed imports: a source whose own execution fails can run nothing. It is saved, and not activated without force.

The source is executed once at the save, in a child without any grants. An error there counts only if a real run must
fail in the same way: a missing module, or any error of a version that declares no rights and no dependencies. Errors
of the system, and requests to the engine, are the work of missing grants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functory.engine.functions.analysis.findings import Finding, finding_of

KIND = "failed_import"
_IMPORT_ERRORS = ("ModuleNotFoundError:", "ImportError:")
# Rights that a child has in a real run and not at a save.
_RIGHTS = ("dependencies", "secrets", "permissions", "grants")


def finding(error: str | None, content: Mapping[str, Any], packages_known: bool) -> Finding | None:
    """Return the finding about the error of executing a source; None when a real run may do better.

    ``packages_known`` is False when the source was executed without the packages that it declares.
    """
    if error is None or not packages_known:
        return None
    if error.startswith(_IMPORT_ERRORS):
        # A granted folder may hold the module.
        certain = not content["grants"].get("files")
    else:
        # Declared imports are names of the source in a real run.
        certain = not content["declared"].get("imports") and not any(content[right] for right in _RIGHTS)
    return (
        finding_of(KIND, 0, 0, f"executing the source fails: {error}", error.partition(":")[0])
        if certain
        else None
    )


def is_reported(warnings: Iterable[str]) -> bool:
    """Return whether the warnings of a version say that executing its source failed when it was saved."""
    return any(": executing its source failed: " in warning for warning in warnings)
