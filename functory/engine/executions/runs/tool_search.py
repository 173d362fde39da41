"""Tools: functions as models see them, found by a goal. Code of a run finds the tools of its run alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from functory.engine.access.scopes import Scope
from functory.engine.agents import embeddings, memory_fields, ranking, tool_texts, vectors
from functory.engine.agents.memory import Embed
from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound
from functory.engine.executions.runs import consent
from functory.engine.functions import versions
from functory.engine.tallies import track_record
from functory.engine.tallies.reader import Tallies

USUAL_RESULTS = 12
# The results of each way that are ranked together.
DEPTH = 100


class Tools:
    """The functions of a database as tools. ``embed`` is asked for the vector of a query that comes without."""

    def __init__(self, database: Database, tallies: Tallies, embed: Embed | None = None) -> None:
        self._database = database
        self._embed = embed
        self._tallies = tallies

    def search(
        self,
        query: str,
        k: int = USUAL_RESULTS,
        *,
        names: Collection[str] | None = None,
        vector: tuple[str, bytes] | None = None,
        scope: Scope = None,
    ) -> list[dict[str, Any]]:
        """Return the ``k`` functions that fit a goal best, as tools: ``name``, ``description``, ``parameters`` (a JSON
        Schema), ``effect`` and ``score``. With ``names`` these functions alone, and only those in ``scope``.

        They are found by the words of name, description and parameters, and with ``vector`` (of the query, with the
        name of its model) by their meaning too. Raises :class:`Invalid`.
        """
        query, k = memory_fields.checked_query(query, k)
        if vector is None and self._embed is not None:
            vector = self._embed("function", query)
        with self._database.read() as tx:
            texts = {one.id: one for one in tool_texts.load(tx, names, scope)}
            # Of equal ones the first by name: the ids of functions say when they were made.
            by_words = ranking.by_words(query, ((one.id, one.text) for one in texts.values()))
            rankings = [by_words[:DEPTH]]
            if vector is not None:
                rankings.append(_by_vector(tx, vector, texts))
            best = ranking.fused(*rankings)[:k]
            return [
                {**texts[id_].tool, "effect": _effect(tx, texts[id_].tool["name"]), "score": round(score, 6)}
                for id_, score in best
            ]

    def schema(self, name: str, *, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return one function as a tool, with ``effect`` and its track record (``record``, None before it has run).
        Raises :class:`NotFound`, also for one that is not among ``names``.
        """
        with self._database.read() as tx:
            found = tool_texts.load(tx, [name]) if names is None or name in names else []
            if not found:
                raise NotFound(
                    f"there is no tool {str(name)[:80]!r}",
                    "no function has this name, or this run may not use it",
                    "tools.search(goal)",
                )
            tool = {**found[0].tool, "effect": _effect(tx, name)}
        return {**tool, "record": self.record(name)}

    def record(self, name: str) -> str | None:
        """Return the track record of a function in words; None before it has run."""
        with self._database.read() as tx:
            since = tx.now - track_record.SPAN
        total = self._tallies.function_stats(name, since).total
        return track_record.words(
            {"runs": total.runs, "outcomes": total.outcomes, "p95_run_seconds": total.run_seconds(0.95)}
        )


def _effect(tx: Tx, name: str) -> str | None:
    version = versions.load(tx, name, None)
    return None if version is None else consent.effect_of(tx, version)


def _by_vector(tx: Tx, vector: tuple[str, bytes], texts: Collection[str]) -> list[tuple[str, float]]:
    model, meaning = vector
    pages = embeddings.batches(tx, "function", model)
    fitting = ([(id_, raw) for id_, raw in page if id_ in texts] for page in pages)
    return vectors.nearest(meaning, fitting, DEPTH)
