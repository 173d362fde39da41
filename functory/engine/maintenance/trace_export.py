"""The start of this process's recorder of traces, if the settings ask for one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import structlog

from functory.engine import extras
from functory.engine.database.connection import Database
from functory.engine.errors import Invalid
from functory.engine.events import trace_origins
from functory.engine.settings import Settings
from functory.engine.telemetry import traces

log = structlog.get_logger("functory.traces")

_PROTOCOL = "http/protobuf"


def start(settings: Settings, database: Database, role: str) -> Callable[[], None]:
    """Record the traces of this process, if ``traces`` is on. Returns what ends that, and exports what waits.

    A process has one recorder; a second start does nothing. Raises :class:`Invalid` without the extra ``otel``.
    """
    if settings.traces == "off" or _is_disabled() or traces.recorder is not None:
        return lambda: None
    for variable in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        if os.environ.get(variable, _PROTOCOL) != _PROTOCOL:
            log.warning("traces are sent with another protocol", variable=variable, protocol=_PROTOCOL)
    try:
        from functory.engine.telemetry.trace_recorder import TraceRecorder
    except ImportError as missing:
        raise Invalid(
            "FUNCTORY_TRACES is on, and the packages for it are not installed",
            str(missing),
            f"{extras.install_command('otel')}; or set FUNCTORY_TRACES=off",
        ) from None
    recorder = TraceRecorder(f"functory-{role}", partial(trace_origins.find, database))
    traces.use(recorder)

    def stop() -> None:
        traces.use(None)
        recorder.close()

    return stop


def _is_disabled() -> bool:
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
