"""Logging of a role process: structlog for our own lines and for those of the libraries, on stderr.

Every role calls :func:`configure` once at its start. A program that opens a client keeps its own logging
(:func:`warn_on_stderr`). Lines are text for people or, with ``log_json``, one JSON object each. Whatever is written, a
password inside a URL is masked in the finished line: libraries put broker and database addresses into
their messages and tracebacks without asking.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from functory.engine.serialization.json_codec import encode
from functory.engine.telemetry import traces

MASK = "***"

# userinfo of RFC 3986, section 3.2.1: scheme://user:password@host. A password that is not encoded may hold
# any of the delimiters, so the last "@" before a blank ends it: rather too much is masked than too little.
# The bounds keep the search linear in texts of any length.
_PASSWORD = re.compile(
    r"(?P<before>[a-z][a-z0-9+.-]{0,30}://[^\s:/@'\"]{0,200}:)\S{1,500}(?P<after>@)", re.IGNORECASE
)
_PARAMETER = re.compile(r"([?&](?:password|sslpassword)=)[^&\s'\"]+", re.IGNORECASE)

# Libraries that log each message or step at a level at which we log only changes of state.
_NOISY_LOGGERS = ("celery.worker.strategy", "celery.app.trace", "alembic", "uvicorn", "kombu", "amqp")


def mask(text: str) -> str:
    """Return ``text`` with the passwords of all URLs in it replaced, in their authority and in their query."""
    return _PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\g<before>{MASK}\g<after>", text))


def configure(level: str = "info", *, as_json: bool = False, stream: Any = None) -> None:
    """Send structlog and :mod:`logging` to ``stream`` (stderr) from ``level`` on.

    ``level`` is debug, info, warning or error. May be called again: the last call counts.
    """
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        traces.add_trace,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
    ]
    if as_json:
        tail: list[Any] = [structlog.processors.format_exc_info, _json]
    else:
        colours = bool(getattr(stream, "isatty", bool)())
        tail = [
            structlog.dev.ConsoleRenderer(
                colors=colours, pad_event_to=32, exception_formatter=structlog.dev.plain_traceback
            ),
            _masked,
        ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(
            logging.DEBUG if level == "debug" else max(logging.WARNING, root.level)
        )
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def warn_on_stderr() -> None:
    """Send warnings and errors of structlog to stderr, unless it was configured before: its own default is stdout.

    For processes that are not ours: :mod:`logging` stays as they have it.
    """
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
                structlog.dev.ConsoleRenderer(
                    colors=False, pad_event_to=32, exception_formatter=structlog.dev.plain_traceback
                ),
                _masked,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=_stderr_logger,
        )


def _stderr_logger(*_: Any) -> structlog.PrintLogger:
    """A logger that prints to what ``sys.stderr`` is now: programs, and tests, replace it."""
    return structlog.PrintLogger(sys.stderr)


def _json(_logger: Any, _method: str, fields: Mapping[str, Any]) -> str:
    # Masked before the quotes of a password are escaped, after which they would look like its end.
    plain = {
        key: value if isinstance(value, int | float | bool | None) else mask(str(value))
        for key, value in fields.items()
    }
    return encode(plain).decode()


def _masked(_logger: Any, _method: str, line: str | MutableMapping[str, Any]) -> str:
    return mask(str(line))
