"""The headers that carry a run's lineage in its HTTP requests, and the rule by which they are added to a request.

Both sides add them: the child to what its HTTP clients send, over TLS too
(``functory.workers.sandbox.guest.http_clients``), and the worker to the plain HTTP of any client
(``functory.workers.sandbox.network.request_heads``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def missing_headers(lineage: Mapping[str, str], present: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of ``lineage`` that a request with the headers ``present`` (lower-case names) needs.

    A request that is part of a trace stays part of it: its ``traceparent`` is kept, since a second one would make both
    invalid. A further ``tracestate`` is joined with the first (W3C Trace Context, 3.3.1.1).
    """
    given = set(present)
    names = {name for name, _ in given}
    return [
        (name, value)
        for name, value in lineage.items()
        if (name, value) not in given and not (name == "traceparent" and name in names)
    ]
