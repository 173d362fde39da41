"""Requests to language models: what is taken, what is refused, and that the same request has the same hash."""

from __future__ import annotations

from typing import Any

import pytest

from functory.engine.agents import requests
from functory.engine.errors import Invalid

ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}


def test_a_text_is_a_message_of_the_user() -> None:
    request = requests.chat({"messages": "hello"})
    assert request.messages == [{"role": "user", "content": "hello"}]


def test_the_same_request_has_the_same_hash_and_another_one_another() -> None:
    one = requests.chat({"messages": "hello", "model": "small"})
    assert one.sha256 == requests.chat({"model": "small", "messages": "hello"}).sha256
    others = [
        {"messages": "hello!", "model": "small"},
        {"messages": "hello", "model": "large"},
        {"messages": "hello", "model": "small", "max_tokens": 5},
        {"messages": "hello", "model": "small", "temperature": 0},
        {"messages": "hello", "model": "small", "tools": [ADD]},
        {"messages": "hello", "model": "small", "schema": {"type": "object"}},
    ]
    assert len({one.sha256, *(requests.chat(other).sha256 for other in others)}) == 7


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"messages": []}, "wrong messages"),
        ({"messages": None}, "wrong messages"),
        ({"messages": [{"content": "x"}]}, "wrong message 1"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "wrong message 1"),
        ({"messages": [{"role": "user", "content": 5}]}, "its content is no text"),
        ({"messages": [{"role": "user", "content": "x", "name": "y"}]}, "has no name"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "wrong tool_call_id"),
        ({"messages": "x", "tools": {}}, "wrong tools"),
        ({"messages": "x", "tools": [{"name": "a b"}]}, "wrong name of tool 1"),
        ({"messages": "x", "tools": [ADD, ADD]}, "two tools are called add"),
        ({"messages": "x", "tools": [{**ADD, "name": f"t{n}"} for n in range(10_000)]}, "10,000 tools"),
        ({"messages": "x", "max_tokens": 0}, "wrong max_tokens"),
        ({"messages": "x", "max_tokens": True}, "wrong max_tokens"),
        ({"messages": "x", "temperature": 3}, "wrong temperature"),
        ({"messages": "x", "model": ""}, "wrong model"),
        ({"messages": "x", "api_key": "y"}, "no argument 'api_key'"),
        ({"messages": "x" * 5_000_000}, "too large"),
        ({"messages": "x", "schema": {"$ref": "http://127.0.0.1/x"}}, "remote references are refused"),
        ({"messages": "x", "schema": {"type": "nothing"}}, "schema"),
    ],
)
def test_what_is_wrong_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid) as refused:
        requests.chat(arguments)
    assert text in str(refused.value)


@pytest.mark.parametrize("texts", [[], [""], ["a", 5], None, ["x"] * 300])
def test_texts_without_an_embedding_are_refused(texts: Any) -> None:
    with pytest.raises(Invalid):
        requests.embed({"texts": texts})


def test_a_conversation_shares_its_parts_with_the_one_before() -> None:
    first = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    one = requests.chat({"messages": first, "tools": [ADD]})
    two = requests.chat({"messages": [*first, {"role": "assistant", "content": "hi"}], "tools": [ADD]})
    (row_1, parts_1), (row_2, parts_2) = requests.split(one), requests.split(two)
    assert len(parts_1.keys() | parts_2.keys()) == 4
    for request, row in ((one, row_1), (two, row_2)):
        assert requests.joined(row, {**parts_1, **parts_2}.__getitem__) == request
    assert row_2["messages"][:2] == row_1["messages"]


def test_no_request_has_more_tokens_than_its_bound() -> None:
    worst = requests.chat({"messages": [{"role": "user", "content": "☃" * 100}]})
    assert worst.most_tokens() >= 300
