"""``python -m functory.roles.probe [--ready | URL]``: ends with 0 while a role works, else with 1 and the reason.

Container engines run it as a health check beside the role, in the role's environment: an image needs no other program
for that. It asks ``/healthz`` on the metrics port of the role (``FUNCTORY_METRICS_PORT``): no thread of the role hangs.
A worker must also have taken work, or found that none was waiting, within the last minute: a worker that gets no
messages is alive, too. With ``--ready`` it also asks ``/readyz``; a URL is asked alone. It imports nothing of the
product, so that it costs little every ten seconds.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

ANSWER_SECONDS = 5.0
# An idle worker looks for work every few seconds, also while the broker is unavailable.
INTAKE_SECONDS = 60.0

_INTAKE = re.compile(r"^functory_worker_last_intake_timestamp_seconds (\S+)$", re.MULTILINE)


def fault(url: str) -> str | None:
    """Return what is wrong with what answers at ``url``; None while it works."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ANSWER_SECONDS) as answer:
            text = answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code}"
    except (OSError, http.client.HTTPException) as error:
        return f"{url} does not answer: {error}"
    return stale(text, time.time())


def stale(metrics: str, now: float) -> str | None:
    """Return how long a worker has taken no work, if that is too long; None without a worker's metrics."""
    found = _INTAKE.search(metrics)
    last = float(found[1]) if found else 0.0
    # It is 0 while a worker starts, and in a prefork pool, where the children take the work.
    if last and now - last > INTAKE_SECONDS:
        return f"the worker took no work for {now - last:.0f} s"
    return None


def urls(arguments: Sequence[str], port: str) -> list[str]:
    """Return what to ask."""
    if arguments and arguments != ["--ready"]:
        return list(arguments)
    paths = ("healthz", *(["readyz"] if arguments else []), "metrics")
    return [f"http://127.0.0.1:{port}/{path}" for path in paths]


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong, and return the exit status."""
    port = os.environ.get("FUNCTORY_METRICS_PORT", "")
    asked = urls(arguments, port)
    if not port and asked != list(arguments):
        sys.stderr.write("no port to ask / try: set FUNCTORY_METRICS_PORT, or give a URL\n")
        return 2
    found = next(filter(None, map(fault, asked)), None)
    if found:
        sys.stderr.write(f"{found}\n")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
