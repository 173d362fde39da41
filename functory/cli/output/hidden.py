"""What commands show in the place of a payload that the caller of a server may not read."""

from __future__ import annotations

from collections.abc import Mapping

# What the API answers (:mod:`functory.api.redaction`).
HIDDEN: Mapping[str, str] = {"redacted": "payload:read"}
HIDDEN_TEXT = "(hidden: it needs the right payload:read)"
