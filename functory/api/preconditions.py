"""If-Match: the version that a change starts from (RFC 9110, section 13.1.1)."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, Response

from functory.engine.errors import Invalid

_TAG = re.compile(r'"?(\d{1,9})"?')


def _expected(
    if_match: Annotated[
        str | None,
        Header(
            description='Number of the version that the change starts from, such as "7"; "0" for a new one.'
        ),
    ] = None,
) -> int | None:
    if if_match is None or if_match == "*":
        return None
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        raise Invalid(
            f"If-Match {if_match[:40]!r} is not a version", "it is the number of a version", 'If-Match: "7"'
        )
    return int(found[1])


# The version that the caller has seen; None when any will do. Another one is a 412 with the current number.
ExpectedVersion = Annotated[int | None, Depends(_expected)]


def tag(response: Response, version: int | None) -> None:
    """Let the answer carry the version as its ETag, to be sent back as If-Match."""
    response.headers["etag"] = f'"{version or 0}"'
