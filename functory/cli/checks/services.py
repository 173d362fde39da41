"""Checks of what this installation speaks to: the broker, sources, the metrics port, the receiver of
traces, and who may use the server.
"""

from __future__ import annotations

import http.client

from functory.cli.checks.finding import Finding
from functory.cli.checks.installation import Installation
from functory.engine.http_addresses import http_url
from functory.engine.setting_display import mask_url

# A role on the same machine or in the same network answers in milliseconds.
METRICS_SECONDS = 3.0
TRACES_SECONDS = 3.0
# An address to listen on that is no address to connect to.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - compared, not listened on


def broker(installation: Installation) -> list[Finding]:
    """Whether the broker answers, and its server is set as Functory needs it."""
    from functory.engine.events import broker_server

    settings = installation.settings
    if settings.embedded:
        return [Finding("broker", "ok", "in memory, in this process")]
    if settings.brokerless:
        return [Finding("broker", "ok", "none: workers claim from the database, events are not published")]
    found = broker_server.problems(settings)
    return [Finding("broker", "ok", f"{settings.broker.split(':', 1)[0]} is reachable")] + [
        Finding("broker", "fail" if one.grave else "warn", f"{one.what}: {one.why}", one.try_)
        for one in found
    ]


def sources(installation: Installation) -> list[Finding]:
    """Sources that cannot work."""
    from functory.cli.output import source_health

    if installation.data is None:
        return []
    enabled, troubles = source_health.find_problems(
        installation.data, embedded=installation.settings.embedded
    )
    if not troubles:
        return [Finding("sources", "ok", f"{enabled} enabled")] if enabled else []
    return [Finding("sources", "warn", what, advice) for what, advice in troubles]


def metrics(installation: Installation) -> list[Finding]:
    """Whether the role with these settings serves its metrics: each role has a port of its own."""
    settings = installation.settings
    port = settings.metrics_port
    if port is None:
        return [Finding("metrics", "ok", "no port of their own; the server has them at /metrics")]
    if port == 0:
        return [Finding("metrics", "ok", "on a free port, which a role prints when it is ready")]
    host = _ANY.get(settings.metrics_host, settings.metrics_host)
    url = f"{http_url(host, port)}/metrics"
    connection = http.client.HTTPConnection(host, port, timeout=METRICS_SECONDS)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        return [
            Finding(
                "metrics",
                "warn",
                f"no role answers at {url}: {getattr(error, 'strerror', None) or error}",
                f"start the role whose port it is: FUNCTORY_METRICS_PORT={port} functory {_role(installation)}",
            )
        ]
    finally:
        connection.close()
    if b"functory_build_info" not in text:
        return [
            Finding(
                "metrics",
                "warn",
                f"another program answers at {url}",
                "set FUNCTORY_METRICS_PORT to a free port, a different one for each role",
            )
        ]
    return [Finding("metrics", "ok", url)]


def traces(installation: Installation) -> list[Finding]:
    """Whether the receiver of traces takes an empty message, sent as roles send theirs."""
    if installation.settings.traces == "off":
        return [Finding("traces", "ok", "FUNCTORY_TRACES is off: no traces are recorded")]
    try:
        from functory.engine.telemetry.trace_recorder import send_nothing
    except ModuleNotFoundError:
        # The check of the extras says what is missing.
        return []
    url, taken = send_nothing(TRACES_SECONDS)
    url = mask_url(url)
    if not taken:
        return [
            Finding(
                "traces",
                "warn",
                f"no receiver takes traces at {url}; roles lose the spans that they record",
                "start the receiver, or set OTEL_EXPORTER_OTLP_ENDPOINT to its address",
            )
        ]
    return [Finding("traces", "ok", f"the receiver at {url} takes them")]


def access(installation: Installation) -> list[Finding]:
    """Whether somebody may administer a server that other machines reach."""
    from functory.engine.access.users import Users

    settings = installation.settings
    if settings.api == "off":
        return [Finding("access", "ok", "FUNCTORY_API is off: no users, and no pages")]
    if _only_this_machine(settings.host):
        return [Finding("access", "ok", "a server listens on this machine only")]
    if installation.data is None or not Users(installation.data).has_admin():
        return [
            Finding(
                "access",
                "fail",
                f"a server would listen on {settings.host}, and there is no admin: it does not start",
                "functory user create NAME --role admin",
            )
        ]
    return [Finding("access", "ok", f"there is an admin; a server listens on {settings.host}")]


def _only_this_machine(host: str) -> bool:
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _role(installation: Installation) -> str:
    return "dev" if installation.settings.embedded else "worker"
