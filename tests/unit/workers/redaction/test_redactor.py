"""Redaction: a secret is found in every form in which programs write it, in text, in numbers and in streams."""

import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.workers.redaction.redactor import MARK, Redactor, StreamRedactor
from tests.support.secret_spellings import pieces, spelled

TOKEN = "sk-live_4f9A8b7C6d5E4f3a2B1c0D9e8F7a6B5c"
HARD = 'p@ss/w0rd+"it\'s" <né&=ü>\\x%#~!'
_LINES = [
    "".join(random.Random(n).choices(string.ascii_letters + string.digits + "+/", k=64)) for n in range(12)
]
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *_LINES, "Zm9vYmFyMTI=", "-----END PRIVATE KEY-----", ""])
# A document in which only the fields are secret.
DOCUMENT = json.dumps(
    {"type": "account", "private_key": KEY, "id": TOKEN, "pin": 48151623, "live": True}, indent=2
)


def redactor(*values: str) -> Redactor:
    made = Redactor()
    for number, value in enumerate(values):
        made.add(f"S{number}", value)
    return made


@pytest.mark.parametrize("secret", [TOKEN, HARD, KEY], ids=["token", "hard", "key file"])
def test_every_spelling_of_a_secret_is_removed(secret: str) -> None:
    redact, forbidden = redactor(secret), pieces(secret)
    assert len(spelled(secret)) >= 75
    left = {}
    for name, text in spelled(secret).items():
        shown = redact(text)
        if shown == text or any(piece in shown for piece in forbidden):
            left[name] = shown
    assert left == {}


def test_nothing_remains_of_a_spelling_but_what_surrounds_the_secret() -> None:
    redact = redactor(HARD)
    for name in ("plain", "hex with colons", "percent", "HTML", "base64", "JavaScript, all escaped"):
        assert redact(spelled(HARD)[name]) == MARK, name
    assert redact(spelled(HARD)["JSON in JSON"]).replace("\\", "") == '{"body": "{"key": "***"}"}'


def test_fields_of_a_document_are_secrets_of_their_own() -> None:
    redact = redactor(DOCUMENT)
    shown = f"id={TOKEN} pin={48151623} type=account live=true {KEY.splitlines()[3]}"
    assert redact(shown) == f"id={MARK} pin={MARK} type=account live=true {MARK}"
    assert redact({"pin": 48151623, "live": True, "type": "account", "n": 5}) == {
        "pin": MARK, "live": True, "type": "account", "n": 5,
    }  # fmt: skip
    assert redact(json.dumps(json.loads(DOCUMENT)["private_key"])) == f'"{MARK}"'


def test_parts_of_an_address_and_of_assignments_are_secrets_of_their_own() -> None:
    redact = redactor("postgresql://app:hunter2%2Fsecret@db.internal/orders", "A=1\nTOKEN='abcdefgh12'\n")
    assert (
        redact("connect as app with hunter2/secret to db.internal")
        == f"connect as app with {MARK} to db.internal"
    )
    assert redact("postgresql://app@db.internal/invoices") == "postgresql://app@db.internal/invoices"
    assert redact("curl -H abcdefgh12") == f"curl -H {MARK}"


@pytest.mark.parametrize(
    ("secret", "number"),
    [("0012345678", 12345678), ("  123456\n", 123456), ("-1234567", -1234567), ("1234567.50", 1234567.5)],
)
def test_numbers_made_of_a_secret_are_removed(secret: str, number: float) -> None:
    redact = redactor(secret)
    assert redact({"n": number, "text": f"n={number}"}) == {"n": MARK, "text": f"n={MARK}"}
    assert redact([1, True, None, 1.5]) == [1, True, None, 1.5]


@pytest.mark.parametrize("secret", ["true", "null", "None", "1", "abc", " on ", "false\n"])
def test_short_and_ordinary_values_are_left_alone(secret: str) -> None:
    text = "true null None 1 abc on false"
    assert redactor(secret)(text) == text


def test_a_short_secret_counts_as_a_word_only() -> None:
    redact = redactor("prod", "hunter2")
    assert redact("prod products hunter2, xhunter2") == f"{MARK} products {MARK}, xhunter2"


def test_keys_of_objects_are_redacted() -> None:
    assert redactor(TOKEN)({TOKEN: [(TOKEN,)]}) == {MARK: [[MARK]]}


def test_the_names_of_secrets_in_a_value_are_known() -> None:
    redact = redactor(TOKEN, HARD)
    assert redact.names_in({"a": [TOKEN, 5]}) == ["S0"]
    assert redact.names_in([spelled(HARD)["base64 of user:secret"], TOKEN]) == ["S0", "S1"]
    assert redact.names_in("nothing of them") == []


def test_without_secrets_a_value_is_the_same_object() -> None:
    value = {"a": ["b"]}
    assert Redactor()(value) is value


# Streams.


def streamed(redact: Redactor, text: str, sizes: list[int]) -> str:
    stream, at, out = StreamRedactor(redact), 0, ""
    for size in [*sizes, len(text)]:
        out += stream.feed(text[at : at + size])
        at += size
    return out + stream.close()


@given(
    st.sampled_from([TOKEN, HARD, KEY]),
    st.lists(st.sampled_from(["", "x", " ", "\n", "-----", "the key is ", "sk-live"]), max_size=4).map(
        "".join
    ),
    st.lists(st.integers(1, 70), max_size=60),
)
def test_no_border_of_chunks_shows_a_secret(secret: str, around: str, sizes: list[int]) -> None:
    out = streamed(redactor(secret), around + secret + around, sizes)
    assert not [piece for piece in pieces(secret) if piece in out]
    assert streamed(Redactor(), around + secret, sizes) == around + secret


@given(st.text(alphabet="sk-live_4f9 \n", max_size=60), st.lists(st.integers(1, 9), max_size=20))
def test_text_that_only_looks_like_a_secret_comes_through(text: str, sizes: list[int]) -> None:
    assert streamed(redactor(TOKEN), text, sizes) == text


def test_lines_do_not_wait_for_others() -> None:
    stream = StreamRedactor(redactor(TOKEN, KEY))
    assert stream.feed("working\n") == "working\n"
    assert stream.feed("half a secret: " + TOKEN[:10]) == "half a secret: "
    assert stream.feed(TOKEN[10:] + "\n") == f"{MARK}\n"


def test_a_secret_of_the_largest_size_is_removed() -> None:
    secret = "".join(random.Random(7).choices(string.printable, k=65_536))
    assert redactor(secret)(f"<{secret}>") == f"<{MARK}>"


class _CountedText(str):
    """A text that counts how often pieces are taken from it."""

    taken = 0

    def __getitem__(self, index):  # type: ignore[override]
        _CountedText.taken += 1
        return str.__getitem__(self, index)


@pytest.mark.parametrize("count", [1, 20])
def test_the_work_grows_with_the_text_and_not_with_the_secrets(count: int) -> None:
    rng = random.Random(3)
    search = redactor(*("".join(rng.choices(string.ascii_letters, k=40)) for _ in range(count))).search
    _CountedText.taken = 0
    text = _CountedText("".join(rng.choices(string.ascii_letters + " \n", k=100_000)))
    assert search.find(text) == []
    assert _CountedText.taken < 110_000
