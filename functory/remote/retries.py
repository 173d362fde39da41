"""When a request is sent again: only one that can do no harm twice, and only for a time."""

from __future__ import annotations

import math

from functory.engine import backoff

# The first one and three more: half a second of trouble passes unseen, a minute does not.
ATTEMPTS = 4
# The first pause lasts up to this, and a third of it at least: clients that failed together do not come back together.
FIRST_PAUSE = 0.15
SPREAD = 2 / 3
# A server that asks for a longer pause is busier than a caller wants to wait.
LONGEST_PAUSE = 5.0

# The request was not worked on (429), or a part of the server was away (502, 503).
_PASSING = (429, 502, 503)


def pause_before(attempt: int, random: float) -> float:
    """Seconds before this attempt (2 is the first repetition). ``random`` (0 to 1) spreads them."""
    return backoff.pause(attempt - 1, FIRST_PAUSE, LONGEST_PAUSE, spread=SPREAD, draw=random)


def pause_after(status: int, retry_after: str | None, attempt: int, random: float) -> float | None:
    """Seconds before a request with this answer is sent again; None when the answer stands."""
    if status not in _PASSING or attempt >= ATTEMPTS:
        return None
    asked = _seconds(retry_after)
    if asked is None:
        return pause_before(attempt + 1, random)
    return asked if asked <= LONGEST_PAUSE else None


def _seconds(text: str | None) -> float | None:
    try:
        found = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None
