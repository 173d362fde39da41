"""Limits of a function version: read, checked, and filled with defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from functory.engine.errors import Invalid

# An attempt that ends without the function's fault (killed worker, crash) is repeated up to this number of attempts,
# also for a function without retries.
MIN_ATTEMPTS = 3

# Of most executions, so that they compete by age and fair shares alone.
DEFAULT_PRIORITY = 0


@dataclass(frozen=True)
class Limits:
    """The limits of one version. Times are seconds, sizes bytes.

    ``cpu`` is 10 seconds, or the timeout where that was set longer. ``memory_bytes`` counts address space and,
    where control groups can be written, real memory. Scratch is the private ``/tmp`` of one execution. ``retry_on``
    and ``final_on`` name classes of errors: only those of ``retry_on`` are retried, if it names any, and none of
    ``final_on``.
    """

    timeout: float = 30.0
    cpu: float | None = None
    memory_bytes: int = 536_870_912
    threads: int = 16
    processes: int = 1
    open_files: int = 64
    scratch_bytes: int = 16_777_216
    scratch_files: int = 4096
    retries: int = 0
    retry_delay: float = 1.0
    retry_max_delay: float = 300.0
    retry_on: tuple[str, ...] = ()
    final_on: tuple[str, ...] = ()
    max_attempts: int | None = None
    result_bytes: int = 1_048_576
    log_bytes: int = 1_048_576
    calls: int = 1000
    llm_calls: int = 20
    priority: int = DEFAULT_PRIORITY
    expires: float | None = None

    def cpu_seconds(self) -> float:
        """Return the CPU time of one execution in seconds: as set, else 10 s, or the timeout where that is longer."""
        return self.cpu if self.cpu is not None else max(10.0, self.timeout)

    def attempts(self) -> int:
        """Return the maximum number of attempts of an execution."""
        return self.max_attempts or max(self.retries + 1, MIN_ATTEMPTS)

    def as_json(self) -> dict[str, Any]:
        """Return the limits by their names, without lists that are empty: each attempt stores them."""
        found = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}
        return {name: one for name, one in found.items() if one != []}


_BOUNDS: dict[str, tuple[float, float]] = {
    "timeout": (0.001, 86_400), "cpu": (0.1, 86_400), "memory_bytes": (67_108_864, 1_099_511_627_776),
    "threads": (1, 4096), "processes": (1, 1024), "open_files": (16, 65_536),
    "scratch_bytes": (65_536, 1_099_511_627_776), "scratch_files": (16, 10_000_000),
    "retries": (0, 100), "retry_delay": (0, 86_400), "retry_max_delay": (0, 86_400),
    "max_attempts": (1, 1000), "result_bytes": (1, 8_388_608), "log_bytes": (0, 16_777_216), "calls": (0, 100_000),
    "llm_calls": (0, 10_000),
    "priority": (-100, 100), "expires": (0.001, 31_536_000),
}  # fmt: skip


ERROR_NAMES = ("retry_on", "final_on")
_MAX_ERROR_NAMES = 50
_ERROR_NAME = re.compile(r"[^\W\d]\w{0,99}(\.[^\W\d]\w{0,99}){0,9}")


def parse(value: Mapping[str, Any] | None) -> Limits:
    """Check a mapping of limits. Raises :class:`Invalid` naming the wrong one and its bounds."""
    known = {field.name for field in fields(Limits)}
    if value is not None and not isinstance(value, Mapping):
        raise Invalid("limits must be an object", f"got a {type(value).__name__}", 'limits={"timeout": 30}')
    for name, given in (value or {}).items():
        if name not in known:
            raise Invalid(f"unknown limit {name!r}", "the limits are " + ", ".join(sorted(known)))
        if given is None and name in ("max_attempts", "expires", "cpu"):
            continue
        if name in ERROR_NAMES:
            _check_error_names(name, given)
            continue
        low, high = _BOUNDS[name]
        whole = name not in ("timeout", "cpu", "retry_delay", "retry_max_delay", "expires")
        kinds = (int,) if whole else (int, float)
        if isinstance(given, bool) or not isinstance(given, kinds) or not low <= given <= high:
            raise Invalid(
                f"wrong limit {name}={given!r}",
                f"it takes {'a whole number' if whole else 'a number'} from {low:,} to {high:,}",
            )
    made: dict[str, Any] = dict(value or {})
    made |= {name: tuple(made[name]) for name in ERROR_NAMES if name in made}
    both = sorted({*made.get("retry_on", ())} & {*made.get("final_on", ())})
    if both:
        raise Invalid(f"retry_on and final_on both name {both[0]}", "an error is retried or it is final")
    return Limits(**made)


def _check_error_names(name: str, given: Any) -> None:
    """Raise :class:`Invalid` for what is no list of names of classes."""
    example = f'{name}=["ConnectionError", "requests.HTTPError"]'
    if not isinstance(given, list | tuple) or len(given) > _MAX_ERROR_NAMES:
        raise Invalid(
            f"wrong limit {name}={str(given)[:80]!r}",
            f"it takes a list of at most {_MAX_ERROR_NAMES} names of exceptions",
            example,
        )
    for one in given:
        if not isinstance(one, str) or not _ERROR_NAME.fullmatch(one):
            raise Invalid(
                f"wrong limit {name}: {str(one)[:80]!r} is no name of an exception",
                "it takes the name of a class, also with its module before it",
                example,
            )
