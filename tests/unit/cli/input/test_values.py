"""What is typed becomes the value that was meant, or an error that says how to type it."""

import io
import sys
from pathlib import Path

import pytest

from functory.cli.input import values
from functory.engine.errors import Invalid


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-1.5", -1.5),
        ("true", True),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ('"5"', "5"),
        ("Ada", "Ada"),
        ("", ""),
        ("NaN", "NaN"),
        ("01234", "01234"),
        ("a=b", "a=b"),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_a_value_is_json_when_it_is_json_and_else_the_text(text: str, value: object) -> None:
    found = values.parse_pairs([f"key={text}"], "--input")
    assert found == {"key": value} and type(found["key"]) is type(value)


@pytest.mark.parametrize("wrong", [["name"], ["=5"], ["a=1", "a=2"]])
def test_a_pair_without_name_or_value_or_given_twice_is_refused(wrong: list[str]) -> None:
    with pytest.raises(Invalid) as error:
        values.parse_pairs(wrong, "--input")
    assert "--input" in str(error.value)


def test_a_parameter_that_takes_only_text_gets_the_text_as_written() -> None:
    schema = {"properties": {"zip": {"type": "string"}, "count": {"type": "integer"}, "any": {}}}
    texts = ["zip=5", "count=5", "any=5", "other=5"]
    assert values.coerce_strings(values.parse_pairs(texts, "-i"), texts, schema) == {
        "zip": "5",
        "count": 5,
        "any": 5,
        "other": 5,
    }
    schema = {
        "properties": {
            "price": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "level": {"$ref": "#/$defs/Level"},
            "loop": {"$ref": "#/$defs/Loop"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "$defs": {"Level": {"type": "string", "enum": ["1"]}, "Loop": {"$ref": "#/$defs/Loop"}},
    }
    texts = ["price=1.50", "level=1", "loop=1", "either=1"]
    assert values.coerce_strings(values.parse_pairs(texts, "-i"), texts, schema) == {
        "price": "1.50",
        "level": "1",
        "loop": 1,
        "either": 1,
    }
    assert values.coerce_strings({"price": None}, ["price=null"], schema) == {"price": None}
    only_text = {"properties": {"zip": {"type": "string"}}}
    assert values.coerce_strings({"zip": None}, ["zip=null"], only_text) == {"zip": "null"}
    assert values.coerce_strings({"zip": "5"}, ['zip="5"'], schema) == {"zip": "5"}
    assert values.coerce_strings({"a": 1}, ["a=1"], None) == {"a": 1}


def test_a_document_comes_from_the_text_a_file_or_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"from": "file"}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"from": "stdin"}')))
    assert values.read_json('{"from": "text"}', "--data") == {"from": "text"}
    assert values.read_json(f"@{file}", "--data") == {"from": "file"}
    assert values.read_json("-", "--data") == {"from": "stdin"}


def test_a_document_that_cannot_be_read_says_which_and_why(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    for text, said in (
        ("{bad", "--data is not JSON"),
        (f"@{tmp_path}/none", "No such file"),
        (f"@{tmp_path}/latin", "not UTF-8"),
        (f"@{tmp_path}", "Is a directory"),
    ):
        with pytest.raises(Invalid) as error:
            values.read_json(text, "--data")
        assert said in str(error.value)


def test_an_input_that_is_no_object_is_refused() -> None:
    with pytest.raises(Invalid, match="must be a JSON object"):
        values.read_json_object("[1]", "--input-json")
