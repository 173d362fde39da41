"""Embeddings: made by calls of the gateway, once, kept in the database, and gone with what they belong to."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import pytest

from functory.engine.agents import call_queue, calls, embedding_calls
from functory.engine.agents.call_outcomes import Answer, Failure, Usage
from functory.engine.agents.embedding_calls import EmbeddingCalls
from functory.engine.agents.memory import Memory
from functory.engine.agents.models import Models
from functory.engine.database import schema
from functory.engine.executions.runs.tool_search import Tools
from functory.engine.functions.annotations import Annotations
from functory.engine.maintenance import embedder, invariants
from functory.engine.maintenance.embedder import Embedder
from functory.engine.tallies.reader import Tallies
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# What these words are about: texts of the same subject are near each other, without a word in common.
SUBJECTS = {"money": ("pays", "overdue", "invoice", "total"), "drinks": ("tea", "hot", "beverage", "brew")}


def vector(text: str) -> bytes:
    counts = [sum(word in text.lower() for word in words) for words in SUBJECTS.values()]
    return struct.pack("<3f", *counts, not any(counts))


class EmbeddingWorld:
    """A world with a model for embeddings, an embedder, and a gateway that answers when a test says so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.models = Models(world.database)
        fields = {"adapter": "script", "provider_model": "x", "price_in": 1, "price_out": 0}
        self.models.add("vectors", fields | {"capabilities": {"dimensions": 3}}, author="ada")
        self.calls = EmbeddingCalls(world.database, world.settings)
        self.memory = Memory(world.database, self.calls.of_query)
        self.tools = Tools(world.database, Tallies(world.database), self.calls.of_query)
        self.embedder = Embedder(world.database, world.settings)

    def send(self) -> list[Any]:
        with self.world.database.write() as tx:
            return list(call_queue.claim(tx, "gateway", 100, self.world.settings).sent)

    def settle(self, sent: list[Any], failure: Failure | None = None) -> None:
        come = [(one, failure or self.answer(one.request.texts), 0.1) for one in sent]
        with self.world.database.write() as tx:
            call_queue.settle(tx, come, self.world.settings, 0.5)

    @staticmethod
    def answer(texts: Any) -> Answer:
        return Answer({"vectors": [base64.b64encode(vector(text)).decode() for text in texts]}, Usage(5, 0))

    def fill(self) -> int:
        """Let the embedder and the gateway work until there is nothing to do. Returns the number of sent texts."""
        texts = 0
        while True:
            self.embedder.run_once()
            sent = self.send()
            if not sent:
                return texts
            texts += sum(len(one.request.texts) for one in sent)
            self.settle(sent)

    def vectors(self) -> list[dict[str, Any]]:
        return self.world.rows(schema.embedding)

    def search(self, query: str, find: Any = None) -> list[str]:
        """Search with the vector of the query, as its gateway would give it."""
        found = (find or self.memory).search(
            query, vector=("vectors", embedding_calls.vectors.unit(vector(query)))
        )
        return [row.get("text") or row["name"] for row in found]


@pytest.fixture
def made(make_world: Callable[..., World]) -> EmbeddingWorld:
    return EmbeddingWorld(make_world(embedding_model="vectors"))


def test_a_memory_is_found_by_its_meaning(made: EmbeddingWorld) -> None:
    for text in ("Ada pays late", "Tea is hot", "The office is in Bern"):
        made.memory.add(text)
    assert made.search("overdue") == []
    assert made.fill() == 3
    assert made.search("overdue")[0] == "Ada pays late"
    # What words and meaning find comes before what the meaning alone finds.
    assert made.search("overdue tea")[0] == "Tea is hot"


def test_the_texts_of_a_call_are_deleted_and_its_cost_stays(made: EmbeddingWorld) -> None:
    made.memory.add("Ada pays late")
    made.fill()
    (call,) = made.world.rows(schema.llm_call)
    assert call["state"] == "succeeded" and call["cost"] > 0
    assert call["request"] is None and call["response"] is None and made.world.rows(schema.llm_content) == []
    (row,) = made.vectors()
    assert row["dim"] == 3 and row["call_id"] is None and len(row["vector"]) == 12
    found = invariants.verify(made.world.database, made.world.settings)
    assert [one for one in found if one.count] == []


def test_a_text_is_asked_for_once_also_by_two_schedulers(made: EmbeddingWorld) -> None:
    made.memory.add("Ada pays late")
    other = Embedder(made.world.database, made.world.settings)
    for _ in range(2):
        made.embedder.run_once()
        other.run_once()
    assert len(made.world.rows(schema.llm_call)) == 1
    assert made.fill() == 1 and made.fill() == 0


def test_many_texts_are_several_calls(made: EmbeddingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_calls, "BATCH", 2)
    for number in range(5):
        made.memory.add(f"tea {number}")
    assert made.fill() == 5 and len(made.world.rows(schema.llm_call)) == 3
    assert all(row["vector"] for row in made.vectors())


def test_forgetting_deletes_the_vector(made: EmbeddingWorld) -> None:
    row = made.memory.add("Ada pays late")
    made.fill()
    made.memory.forget(row["id"])
    assert made.vectors() == [] and made.search("overdue") == []


def test_forgetting_before_the_call_is_sent_cancels_it(made: EmbeddingWorld) -> None:
    row, other = made.memory.add("Ada pays late"), made.memory.add("Tea is hot")
    made.embedder.run_once()
    made.memory.forget(row["id"])
    assert made.send() == [] and made.world.rows(schema.llm_content) == [] and made.vectors() == []
    # The other text of the call is asked for again.
    assert made.fill() == 1
    assert [one["owner_id"] for one in made.vectors()] == [other["id"]]


def test_forgetting_while_the_call_is_on_its_way(made: EmbeddingWorld) -> None:
    row, other = made.memory.add("Ada pays late"), made.memory.add("Tea is hot")
    made.embedder.run_once()
    sent = made.send()
    made.memory.forget(row["id"])
    made.settle(sent)
    made.embedder.run_once()
    # The vectors that came still belong to the right texts.
    assert [one["owner_id"] for one in made.vectors()] == [other["id"]]
    assert made.search("beverage") == ["Tea is hot"] and made.world.rows(schema.llm_content) == []


def test_a_call_that_fails_is_made_again_after_a_while(made: EmbeddingWorld) -> None:
    made.memory.add("Ada pays late")
    made.embedder.run_once()
    made.settle(made.send(), Failure("final", "no"))
    for _ in range(3):
        made.embedder.run_once()
    assert made.send() == [] and made.vectors() == []
    made.world.advance(embedder.FAILED_SECONDS)
    assert made.fill() == 1


def test_another_number_of_dimensions_makes_vectors_anew(made: EmbeddingWorld) -> None:
    made.memory.add("Ada pays late")
    made.fill()
    with made.world.database.write() as tx:
        tx.execute(schema.embedding.update().values(dim=2, vector=b"12345678"))
    assert made.search("overdue") == []
    made.embedder._calls.look_at_all()
    assert made.fill() == 1 and made.search("overdue") == ["Ada pays late"]


def test_without_a_model_nothing_is_asked(make_world: Callable[..., World]) -> None:
    plain = EmbeddingWorld(make_world())
    plain.memory.add("Ada pays late")
    assert plain.fill() == 0 and plain.calls.of_query("memory", "late") is None


def test_a_disabled_model_is_not_asked(made: EmbeddingWorld) -> None:
    made.memory.add("Ada pays late")
    made.models.set_state("vectors", "disabled", author="ada")
    assert made.fill() == 0
    made.models.set_state("vectors", "enabled", author="ada")
    assert made.fill() == 1


def test_a_function_is_found_by_its_meaning_and_anew_when_it_is_described(made: EmbeddingWorld) -> None:
    made.world.function("invoice_total", "customer")
    made.world.function("brew")
    assert made.fill() == 2
    assert made.search("overdue", made.tools) == ["invoice_total"]
    Annotations(made.world.database).describe("brew", "Also what a customer pays.", author="ada")
    assert made.fill() == 1
    assert sorted(made.search("overdue", made.tools)) == ["brew", "invoice_total"]
    made.world.functions.delete("brew")
    assert made.search("overdue", made.tools) == ["invoice_total"] and len(made.vectors()) == 1


def test_a_search_without_a_gateway_goes_by_words(
    made: EmbeddingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.memory.add("Ada pays late")
    made.fill()
    monkeypatch.setattr(embedding_calls, "QUERY_SECONDS", 0.05)
    assert [row["text"] for row in made.memory.search("late")] == ["Ada pays late"]
    # The question that came too late is asked of nothing any more.
    assert made.send() == []
    assert [row["state"] for row in made.world.rows(schema.llm_call)] == ["succeeded", "cancelled"]


def test_a_query_is_asked_of_the_model(made: EmbeddingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    made.memory.add("Ada pays late")
    made.fill()

    def wait(own: calls.Calls, id_: str, timeout: float | None = None) -> dict[str, Any]:
        made.settle(made.send())
        return own.get(id_)

    monkeypatch.setattr(calls.Calls, "wait", wait)
    assert [row["text"] for row in made.memory.search("overdue")] == ["Ada pays late"]
