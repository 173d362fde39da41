"""Whether a server may listen: on an address that others reach, it needs an admin first."""

from __future__ import annotations

from functory.api import callers
from functory.client.functory import Functory
from functory.engine.errors import Invalid


def has_owner(functory: Functory) -> bool:
    """True when only this machine reaches the server: a login link makes its caller the owner (``functory dev``)."""
    return functory.settings.api == "on" and callers.is_loopback(functory.settings.host)


def has_no_person(functory: Functory) -> bool:
    """True for a server with an API to which no person can log in, because it has no users."""
    settings = functory.settings
    return settings.api == "on" and settings.oidc_issuer is None and not functory.users.list()


def check(functory: Functory) -> None:
    """Refuse to serve the API to others while there is no admin. Raises :class:`Invalid`."""
    settings = functory.settings
    if settings.api == "off" or callers.is_loopback(settings.host) or functory.users.has_admin():
        return
    raise Invalid(
        f"the server would listen on {settings.host}, and there is no admin yet",
        "others can reach that address, so the HTTP API needs users",
        "functory user create NAME --role admin; or FUNCTORY_API=off serves webhooks, events and health alone",
    )
