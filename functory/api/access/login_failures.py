"""Why a login by the identity provider has failed, as a code for the login page.

The browser comes from another site, so the answer is a page and not JSON. The codes are a closed set: the page has the
texts, and no text of the provider or of an address reaches it. What the provider said is in the server's log.
"""

from __future__ import annotations

from typing import Literal, get_args

from functory.api.problem_details import Unauthorized
from functory.engine.access.logins import WrongPassword
from functory.engine.access.users import LastAdmin, NameTaken
from functory.engine.errors import FunctoryError, Invalid, Refused, Unavailable

Failure = Literal[
    "another_user",
    "disabled",
    "invalid_answer",
    "last_admin",
    "name_taken",
    "no_role",
    "no_tls",
    "not_asked_again",
    "not_begun",
    "provider_refused",
    "provider_unavailable",
    "unavailable",
    "wrong_name",
]
FAILURES: tuple[str, ...] = get_args(Failure)


class LoginFailed(Unauthorized):
    """The provider's answer logs no user in."""

    def __init__(self, failure: Failure, what: str, why: str = "", try_: str = "log in again") -> None:
        super().__init__(what, why, try_)
        self.failure: Failure = failure


class ProviderUnavailable(Unavailable):
    """The provider cannot be reached, or answers something else than a provider does."""


_OF_ERRORS: tuple[tuple[type[FunctoryError], Failure], ...] = (
    (ProviderUnavailable, "provider_unavailable"),
    (Unavailable, "unavailable"),
    # Without a password, only a disabled user is refused with it.
    (WrongPassword, "disabled"),
    (NameTaken, "name_taken"),
    (LastAdmin, "last_admin"),
    (Invalid, "wrong_name"),
    (Refused, "no_tls"),
)


def failure_of(error: FunctoryError) -> Failure | None:
    """Return the code of an error; None for one that a login does not raise."""
    if isinstance(error, LoginFailed):
        return error.failure
    return next((failure for kind, failure in _OF_ERRORS if isinstance(error, kind)), None)
