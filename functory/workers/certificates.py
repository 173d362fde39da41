"""Finds the file of certificate authorities that functions trust, where it is not the machine's own.

A company that inspects TLS, or has hosts of its own, has an authority that no client brings along. Its file is shown
in the sandbox of a function with granted hosts, and named by the variables that HTTP clients read.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import structlog

from functory.engine.errors import Invalid

VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Read by OpenSSL (urllib, httpx, aiohttp), requests and botocore, and curl."""

_log = structlog.get_logger(__name__)


def find_ca_file(setting: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of the setting's file, else of the first of ``VARIABLES`` or pip's, else empty.

    Raises :class:`Invalid` when the setting names a file that functions cannot use. A variable that does is left out,
    with a line in the log: it may be meant for another program.
    """
    if setting is not None:
        problem = _problem(setting)
        if problem:
            raise Invalid(
                f"ca_file {setting} cannot be used",
                problem,
                "set FUNCTORY_CA_FILE to a file of certificates (PEM) that every user may read, or leave it out",
            )
        return str(setting.resolve())
    for name in (*VARIABLES, "PIP_CERT"):
        if environment.get(name):
            file = Path(environment[name])
            problem = _problem(file)
            if not problem:
                return str(file.resolve())
            _log.warning("certificate authorities not used by functions", variable=name, reason=problem)
    return ""


def variables(ca_file: str) -> dict[str, str]:
    """Return the environment that lets HTTP clients trust ``ca_file``."""
    return dict.fromkeys(VARIABLES, ca_file) if ca_file else {}


def _problem(file: Path) -> str:
    try:
        if not file.is_file():
            return "it is no file"
        if not file.stat().st_mode & 0o004:
            return "functions run as other users, who may not read it"
        ssl.create_default_context(cafile=file)
    except ssl.SSLError:
        return "it holds no certificate in PEM form"
    except OSError as error:
        return error.strerror or str(error)
    return ""
