"""Users, tokens, logins and labels of a server, as commands read and change them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from functory.cli.remote.part import Part, plain

if TYPE_CHECKING:
    from pydantic import SecretStr


class Users(Part):
    """The users of :class:`functory.engine.access.users.Users`."""

    def list(self) -> list[dict[str, Any]]:
        """All users."""
        return plain([*self._server.users.list()])

    def get(self, name: str) -> dict[str, Any]:
        """One user."""
        return plain(self._server.users.get(name))

    def create(
        self,
        name: str,
        password: SecretStr | None,
        *,
        role: str = "viewer",
        rights: Iterable[str] = (),
        labels: Iterable[str] | None = None,
        author: str = "",
    ) -> None:
        """Create a user."""
        self._server.users.create(
            name=name,
            password=None if password is None else password.get_secret_value(),
            role=role,
            rights=[*rights],
            labels=None if labels is None else [*labels],
        )

    def update(
        self,
        name: str,
        *,
        role: str | None = None,
        rights: Iterable[str] | None = None,
        labels: Iterable[str] | None = None,
        everything: bool = False,
        author: str = "",
    ) -> None:
        """Change what a user may do."""
        self._server.users.update(
            name,
            role=role or UNSET,
            rights=UNSET if rights is None else [*rights],
            labels=[*labels] if labels is not None else None if everything else UNSET,
        )

    def set_password(self, name: str, password: SecretStr, *, author: str = "") -> None:
        """Give a user another password."""
        self._server.users.password(name, password=password.get_secret_value())

    def set_state(self, name: str, state: str, *, author: str = "") -> None:
        """Disable or enable a user."""
        self._server.users.update(name, state=state)

    def delete(self, name: str, *, author: str = "") -> None:
        """Delete a user with its tokens."""
        self._server.users.delete(name)


class Tokens(Part):
    """The tokens of :class:`functory.engine.access.tokens.Tokens`."""

    def list(self, user: str | None = None) -> list[dict[str, Any]]:
        """Tokens: all, or those of a user."""
        return plain([*self._server.tokens.list(user=user)])

    def create(
        self,
        user: str,
        name: str,
        *,
        role: str | None = None,
        rights: Iterable[str] = (),
        labels: Iterable[str] | None = None,
        lifetime: timedelta,
        author: str = "",
    ) -> dict[str, Any]:
        """Create a token. Its row has its text."""
        return plain(
            self._server.tokens.create(
                name=name,
                user=user,
                role=role or UNSET,
                rights=[*rights],
                labels=UNSET if labels is None else [*labels],
                days=lifetime.days,
            )
        )

    def revoke(self, id_: str, *, author: str = "") -> None:
        """Revoke a token."""
        self._server.tokens.revoke(id_)


class Logins(Part):
    """The logins of :class:`functory.engine.access.logins.Logins`."""

    def list(self, user: str | None = None) -> list[dict[str, Any]]:
        """Open logins: all, or those of a user."""
        return plain([*self._server.logins.list(user=user)])

    def end(self, id_: str, *, author: str = "") -> None:
        """End a login."""
        self._server.logins.end(id_)

    def end_all(self, user: str, *, author: str = "") -> int:
        """End all logins of a user. Returns how many there were."""
        found = self.list(user)
        for row in found:
            self.end(row["id"])
        return len(found)


class LogPolicies(Part):
    """Log policies of functions."""

    def set(self, name: str, policy: str, *, author: str = "") -> str:
        """Set the policy of a function. Returns it."""
        return self._server.functions.log_policy(name, log_policy=policy).log_policy


class Labels(Part):
    """Labels of functions and triggers."""

    def function(
        self, name: str, add: Iterable[str], remove: Iterable[str], *, author: str = ""
    ) -> list[str]:
        """Change the labels of a function. Returns them."""
        return [*self._server.functions.labels(name, add=[*add], remove=[*remove]).labels]

    def trigger(self, name: str, add: Iterable[str], remove: Iterable[str], *, author: str = "") -> list[str]:
        """Change the labels of a trigger. Returns them."""
        return [*self._server.triggers.labels(name, add=[*add], remove=[*remove]).labels]
