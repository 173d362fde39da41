"""Language models of a server, their calls and what they may cost, as commands read and change them.

The API has US dollars, the engine whole nano-dollars; so have the rows here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from functory.cli.remote.part import Part, plain
from functory.engine.agents.money import NANO

_PRICES = ("price_in", "price_out", "price_cached")
_TREE = ("usd_limit", "usd_spent", "usd_reserved")
_DAY = ("usd", "usd_spent", "usd_reserved")
# Between two looks at tests that run on the server.
_POLL_SECONDS = 0.3


class Models(Part):
    """The models of :class:`functory.engine.agents.models.Models`."""

    def add(self, name: str, fields: Mapping[str, Any], *, author: str = "") -> dict[str, Any]:
        """Add a model. Returns its row."""
        return _model(self._server.models.add(name=name, **fields))

    def update(self, name: str, changes: Mapping[str, Any], *, author: str = "") -> dict[str, Any]:
        """Change fields of a model. Returns its row."""
        return _model(self._server.models.update(name, **changes))

    def set_state(self, name: str, state: str, *, author: str = "") -> dict[str, Any]:
        """Enable or disable a model. Returns its row."""
        models = self._server.models
        return _model(models.enable(name) if state == "enabled" else models.disable(name))

    def remove(self, name: str, *, author: str = "") -> None:
        """Delete a model."""
        self._server.models.remove(name)

    def list(self) -> list[dict[str, Any]]:
        """All models, by name."""
        return [_model(row) for row in self._server.models.list()]

    def get(self, name: str) -> dict[str, Any]:
        """One model."""
        return _model(self._server.models.get(name))


class Calls(Part):
    """The calls of :class:`functory.engine.agents.calls.Calls`."""

    def list(
        self,
        *,
        root_id: str | None = None,
        execution_id: str | None = None,
        limit: int = 50,
        **wanted: Any,
    ) -> list[dict[str, Any]]:
        """Calls, newest first."""
        found = self._server.calls.list(root=root_id, execution=execution_id, **wanted)
        return [_call(row) for row in found.all(limit=limit)]

    def get(self, id_: str) -> dict[str, Any]:
        """A call with its request, its answer and its tries."""
        row = _call(self._server.calls.get(id_))
        return row | {"tried": [in_nano(one, "cost") for one in row["tried"]]}

    def cost(self, by: str, *, since: datetime | None = None) -> list[dict[str, Any]]:
        """Calls, tokens and cost in sum."""
        return [in_nano(plain(row), "cost") for row in self._server.calls.cost(by=by, since=since)]

    def test(self, model: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Ask a model what its tests ask, and yield the result of each when it has ended."""
        name = model["name"]
        found = self._server.models.test(name)
        root, told = found.root_id, 0
        while True:
            for one in found.tests[told:]:
                if one.state in ("queued", "sent"):
                    break
                told += 1
                yield in_nano(plain(one), "cost")
            if found.ended:
                return
            time.sleep(_POLL_SECONDS)
            found = self._server.models.tests(name, root)


class Budgets(Part):
    """The budgets of :class:`functory.engine.agents.meters.Budgets`."""

    def tree(self, id_: str) -> dict[str, Any]:
        """The meter of the tree of an execution."""
        return in_nano(plain(self._server.budgets.get(id_)), *_TREE)

    def raise_tree(self, id_: str, limits: Mapping[str, Any], *, author: str = "") -> dict[str, Any]:
        """Change limits of the tree of an execution. Returns its meter."""
        return in_nano(plain(self._server.budgets.raise_(id_, **limits)), *_TREE)

    def quotas(self) -> list[dict[str, Any]]:
        """The quotas with what was used of them today."""
        return [in_nano(plain(row), *_DAY) for row in self._server.quotas.list()]

    def set_quota(self, scope: str, name: str, limits: Mapping[str, Any], *, author: str = "") -> None:
        """Set what may be spent in a day."""
        self._server.quotas.set(scope=scope, name=name, **limits)

    def remove_quota(self, scope: str, name: str, *, author: str = "") -> None:
        """Delete a quota."""
        self._server.quotas.remove(scope=scope, name=name)


def _model(found: Any) -> dict[str, Any]:
    row = in_nano(plain(found), *_PRICES)
    return row | row.pop("health")


def _call(found: Any) -> dict[str, Any]:
    return in_nano(plain(found), "cost", "reserved")


def in_nano(row: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The row with these amounts as whole nano-dollars."""
    return row | {name: None if row[name] is None else round(row[name] * NANO) for name in fields}
