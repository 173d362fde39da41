"""Events of a server as commands read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functory.cli.remote.executions import made_before, older
from functory.cli.remote.part import Part, plain


class Events(Part):
    """The events of :class:`functory.engine.events.store.Events`."""

    def emit(
        self,
        type_: str,
        data: Any = None,
        *,
        subject: str | None = None,
        source: str = "",
        dedup_key: str | None = None,
        author: str = "",
    ) -> str:
        """Write one event. Its source and its author are the server's."""
        return self._server.emit(type_, data, subject=subject, dedup_key=dedup_key)

    def emit_many(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events, all of them or none."""
        return self._server.emit_many(events)

    def write(self, checked: Iterable[Any], *, source: str, author: str = "") -> list[str]:
        """Write events that were checked before, all of them or none. Their source and author are the server's."""
        names = ("type", "data", "subject", "dedup_key")
        events = [{name: getattr(one, name) for name in names} for one in checked]
        return self._server.emit_many(
            {name: value for name, value in event.items() if value is not None} for event in events
        )

    def get(self, id_: str) -> dict[str, Any]:
        """One event."""
        return plain(self._server.events.get(id_))

    def list(
        self,
        *,
        type_: str | None = None,
        subject: str | None = None,
        state: str | None = None,
        source: str | None = None,
        root_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        payloads: bool = False,
    ) -> list[dict[str, Any]]:
        """Events, newest first; with ``after`` those above an id, oldest first."""
        found = self._server.events.list(
            type=type_ or (),
            subject=subject,
            state=state or (),
            source=source,
            root=root_id,
            until=made_before(before),
        )
        wanted: list[dict[str, Any]] = []
        most = min(limit, 100) if payloads else limit
        for row in found if before is None else older(found, before):
            if after is not None and row.id <= after:
                break
            wanted.append(self.get(row.id) if payloads else plain(row))
            if len(wanted) == most and after is None:
                break
        return wanted if after is None else wanted[::-1][:most]

    def release(self, id_: str, *, author: str = "") -> None:
        """Send a quarantined event to the router again."""
        self._server.events.release(id_)

    def release_all(self, type_: str | None = None, *, author: str = "") -> int:
        """Send all quarantined events to the router again."""
        found = [row.id for row in self._server.events.list(state="quarantined", type=type_ or ())]
        for id_ in found:
            self._server.events.release(id_)
        return len(found)

    def count(self, *_: Any) -> None:
        """The number of events is not known: no route counts them."""
