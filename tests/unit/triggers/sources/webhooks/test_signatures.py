"""Proofs of senders: the vectors that they publish, and everything that must not pass.

The published vectors are GitHub's ("Validating webhook deliveries", Testing), Slack's ("Verifying requests from
Slack", the walk-through), and that of the reference libraries of Standard Webhooks. All others are computed here with
the standard library.
"""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.triggers.sources import registry
from functory.triggers.sources.webhooks import Request, WebhookSource, signatures

NOW = 1_700_000_000.0
BODY = b'{"n": 1, "text": "\xc3\xa9"}'
KEY = "a key of the sender"


def auth_of(**auth: Any) -> Any:
    if auth["type"] not in ("none",):
        auth.setdefault("secret", "S")
    return registry.parse_config(WebhookSource(), {"auth": auth}).auth


def request(*headers: tuple[str, str], body: bytes = BODY) -> Request:
    return Request("POST", headers, "", body)


def verify(
    auth: Any, *headers: tuple[str, str], body: bytes = BODY, keys: Any = (KEY,), now: float = NOW
) -> Any:
    return signatures.verify(auth, keys, request(*headers, body=body), now)


def mac(content: bytes, key: str = KEY, algorithm: str = "sha256") -> bytes:
    return hmac.new(key.encode(), content, algorithm).digest()


def test_githubs_published_vector() -> None:
    header = (
        "x-hub-signature-256",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    )
    keys = ["It's a Secret to Everybody"]
    assert verify(auth_of(type="github"), header, body=b"Hello, World!", keys=keys).ok
    assert not verify(auth_of(type="github"), header, body=b"Hello, World?", keys=keys).ok


SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)


def test_slacks_published_vector() -> None:
    headers = (
        ("x-slack-request-timestamp", "1531420618"),
        ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
    )
    keys = ["8f742231b10e8888abcd99yyyzzz85a5"]
    assert verify(auth_of(type="slack"), *headers, body=SLACK_BODY, keys=keys, now=1531420618.0).ok
    late = verify(auth_of(type="slack"), *headers, body=SLACK_BODY, keys=keys, now=1531420618.0 + 301)
    assert not late.ok and "5m1s old" in late.problem


def test_the_vector_of_standard_webhooks() -> None:
    headers = (
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1a,ignored"),
    )
    given_ = {"body": b'{"test": 2432232314}', "now": 1614265330.0}
    assert verify(
        auth_of(type="standard"), *headers, keys=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], **given_
    ).ok
    assert not verify(
        auth_of(type="standard"), *headers, keys=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"], **given_
    ).ok


def stripe(*signed: str, stamp: int = int(NOW), scheme: str = "v1") -> tuple[str, str]:
    made = [f"{scheme}={mac(f'{stamp}.'.encode() + BODY, key).hex()}" for key in signed]
    return "stripe-signature", ",".join([f"t={stamp}", *made])


@pytest.mark.parametrize(
    ("header", "ok"),
    [
        (stripe(KEY), True),
        (stripe("another", KEY), True),
        (stripe(KEY, "another"), True),
        (stripe("another", "third"), False),
        (stripe(KEY, scheme="v0"), False),
        (stripe(KEY, stamp=int(NOW) - 300), True),
        (stripe(KEY, stamp=int(NOW) - 301), False),
        (stripe(KEY, stamp=int(NOW) + 300), True),
        (stripe(KEY, stamp=int(NOW) + 301), False),
        (("stripe-signature", f"t=1,{stripe(KEY)[1]}"), False),
        (("stripe-signature", "v1=00"), False),
        (("stripe-signature", "t=,v1=00"), False),
        (("stripe-signature", "t=-5,v1=00"), False),
        (("stripe-signature", f"t={'9' * 5000},v1=00"), False),
        (("stripe-signature", ""), False),
        (("stripe-signature", "t=1,v1=zz"), False),
    ],
)
def test_stripe(header: tuple[str, str], ok: bool) -> None:
    assert verify(auth_of(type="stripe"), header).ok is ok


SIGNED = {
    "sha1, hex": ({"algorithm": "sha1"}, ("x-sign", mac(BODY, algorithm="sha1").hex())),
    "sha512, base64": (
        {"algorithm": "sha512", "encoding": "base64"},
        ("x-sign", base64.b64encode(mac(BODY, algorithm="sha512")).decode()),
    ),
    "a prefix": ({"prefix": "hmac-sha256="}, ("x-sign", "hmac-sha256=" + mac(BODY).hex())),
    "upper-case hex": ({}, ("x-sign", mac(BODY).hex().upper())),
    "a header in capitals": ({"header": "X-Sign"}, ("x-sign", mac(BODY).hex())),
    "a template": ({"signed": "pre:{body}:post"}, ("x-sign", mac(b"pre:" + BODY + b":post").hex())),
}


@pytest.mark.parametrize("name", SIGNED)
def test_generic_signatures(name: str) -> None:
    fields, header = SIGNED[name]
    auth = auth_of(**({"type": "hmac", "header": "X-Sign"} | fields))
    assert verify(auth, header).ok
    assert verify(auth, header, keys=["new", KEY]).ok and verify(auth, header, keys=[KEY, "old"]).ok
    assert not verify(auth, header, body=BODY + b" ").ok
    assert not verify(auth, header, keys=["wrong"]).ok


@pytest.mark.parametrize(
    ("stamp", "template", "ok"),
    [
        ("1700000000", None, True),
        ("1700000000000", None, True),
        ("1699999700", "{timestamp}.{body}", True),
        ("1699999699", "{timestamp}.{body}", False),
        ("1700000301", "v1:{timestamp}:{body}", False),
        ("1700000000", "{body}|{timestamp}", True),
        ("1e9", None, False),
        ("17000000000000", None, False),
        (" 1700000000", None, False),
        ("\uff11\uff1700000000", None, False),
        ("", None, False),
    ],
)
def test_generic_signatures_with_a_timestamp(stamp: str, template: str | None, ok: bool) -> None:
    fields = {} if template is None else {"signed": template}
    auth = auth_of(type="hmac", header="x-sign", timestamp_header="x-time", **fields)
    before, after = (template or "{timestamp}.{body}").replace("{timestamp}", stamp).split("{body}")
    content = before.encode() + BODY + after.encode()
    proof = verify(auth, ("x-sign", mac(content).hex()), ("x-time", stamp))
    assert proof.ok is ok
    assert proof.content_key == ("signed:" + hashlib.sha256(content).hexdigest() if ok else None)


GITHUB = ("x-hub-signature-256", "sha256=" + mac(BODY).hex())
REFUSED: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "no header": ({"type": "github"}, []),
    "an empty one": ({"type": "github"}, [("x-hub-signature-256", "")]),
    "only the prefix": ({"type": "github"}, [("x-hub-signature-256", "sha256=")]),
    "without its prefix": ({"type": "github"}, [("x-hub-signature-256", mac(BODY).hex())]),
    "the right one twice": ({"type": "github"}, [GITHUB, GITHUB]),
    "a right and a wrong one": ({"type": "github"}, [GITHUB, ("x-hub-signature-256", "sha256=00")]),
    "two in one header": ({"type": "github"}, [(GITHUB[0], f"{GITHUB[1]}, {GITHUB[1]}")]),
    "cut off": ({"type": "github"}, [(GITHUB[0], GITHUB[1][:-2])]),
    "half a byte": ({"type": "github"}, [(GITHUB[0], GITHUB[1][:-1])]),
    "no ASCII": ({"type": "github"}, [(GITHUB[0], "sha256=\xe9\xe9")]),
    "white space in it": ({"type": "github"}, [(GITHUB[0], GITHUB[1][:20] + " " + GITHUB[1][20:])]),
    "another algorithm": (
        {"type": "github"},
        [("x-hub-signature", "sha1=" + mac(BODY, algorithm="sha1").hex())],
    ),
    "slack without a timestamp": (
        {"type": "slack"},
        [("x-slack-signature", "v0=" + mac(b"v0::" + BODY).hex())],
    ),
    "a wrong token": ({"type": "token"}, [("authorization", "Bearer other")]),
    "a token without its scheme": ({"type": "token"}, [("authorization", KEY)]),
    "a token of another scheme": ({"type": "token"}, [("authorization", f"Basic {KEY}")]),
    "two tokens": ({"type": "token"}, [("authorization", f"Bearer {KEY}")] * 2),
    "an empty token": ({"type": "token", "header": "x-token"}, [("x-token", "")]),
    "a wrong user": (
        {"type": "basic", "user": "ada"},
        [("authorization", "Basic " + base64.b64encode(f"eve:{KEY}".encode()).decode())],
    ),
    "no base64": ({"type": "basic", "user": "ada"}, [("authorization", "Basic ada:key")]),
    "no UTF-8": (
        {"type": "basic", "user": "ada"},
        [("authorization", "Basic " + base64.b64encode(b"ada:\xff").decode())],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_pass(name: str) -> None:
    auth, headers = REFUSED[name]
    proof = verify(auth_of(**auth), *headers)
    assert not proof.ok and proof.problem
    assert KEY not in proof.problem


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"type": "token"}, ("authorization", f"bearer {KEY}")),
        ({"type": "token", "header": "X-Gitlab-Token"}, ("x-gitlab-token", KEY)),
        (
            {"type": "basic", "user": "ada"},
            ("authorization", "BASIC " + base64.b64encode(f"ada:{KEY}".encode()).decode()),
        ),
    ],
)
def test_tokens_and_passwords(auth: dict[str, Any], header: tuple[str, str]) -> None:
    assert verify(auth_of(**auth), header).ok
    assert verify(auth_of(**auth), header, keys=["new", KEY]).ok
    assert verify(auth_of(**auth), header, keys=[KEY, "old"]).ok
    assert not verify(auth_of(**auth), header, keys=["new"]).ok


EVERY = [
    {"type": "github"},
    {"type": "stripe"},
    {"type": "slack"},
    {"type": "standard"},
    {"type": "hmac", "header": "x-sign", "encoding": "base64", "algorithm": "sha512", "prefix": "p="},
    {"type": "hmac", "header": "x-sign", "timestamp_header": "x-time"},
    {"type": "token"},
    {"type": "token", "header": "x-key"},
    {"type": "basic", "user": "ada"},
]


@pytest.mark.parametrize("auth", EVERY, ids=str)
@given(body=st.binary(max_size=200), flip=st.integers(min_value=0), key=st.text("abcXYZ 09é", min_size=1))
def test_what_is_signed_here_passes_and_any_other_body_or_key_does_not(
    auth: dict[str, Any], body: bytes, flip: int, key: str
) -> None:
    config = auth_of(**auth)
    headers = signatures.sign(config, key, body, NOW, "delivery-1")
    lower = [(name, value) for name, value in headers]
    sent = Request("POST", [(n, v.encode().decode("latin-1")) for n, v in lower], "", body)
    if config.type == "token":
        sent = Request("POST", lower, "", body)
    if key.strip() == key:
        assert signatures.verify(config, ["old", key], sent, NOW).ok
    assert not signatures.verify(config, [key + "x"], sent, NOW).ok
    if config.type not in ("token", "basic"):
        changed = bytearray(body or b"\0")
        changed[flip % len(changed)] ^= 1 << flip % 8
        assert not signatures.verify(config, [key], Request("POST", sent.headers, "", bytes(changed)), NOW).ok


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "auth: it is missing"),
    "no type": ({"auth": {}}, "type"),
    "an unknown type": ({"auth": {"type": "gitlab"}}, "type 'gitlab' is none of github, stripe, slack"),
    "no secret": ({"auth": {"type": "github"}}, "secret: it is missing"),
    "no names": ({"auth": {"type": "github", "secret": []}}, "at least 1"),
    "six names": ({"auth": {"type": "github", "secret": ["A"] * 6}}, "at most 5"),
    "the value instead of a name": (
        {"auth": {"type": "github", "secret": "hunter2!hunter2!"}},
        "name of a stored secret",
    ),
    "a number": ({"auth": {"type": "github", "secret": 5}}, "list"),
    "anybody, without saying so": ({"auth": {"type": "none"}}, "allow_unauthenticated: true"),
    "an unknown algorithm": (
        {"auth": {"type": "hmac", "secret": "S", "header": "x", "algorithm": "md5"}},
        "sha256",
    ),
    "a header that is none": (
        {"auth": {"type": "hmac", "secret": "S", "header": "x y"}},
        "is not a header name",
    ),
    "a template without the body": (
        {"auth": {"type": "hmac", "secret": "S", "header": "x", "signed": "{timestamp}"}},
        "holds {body} once",
    ),
    "a template without its timestamp": (
        {"auth": {"type": "hmac", "secret": "S", "header": "x", "timestamp_header": "t", "signed": "{body}"}},
        "{timestamp}.{body}",
    ),
    "a template with more": (
        {"auth": {"type": "hmac", "secret": "S", "header": "x", "signed": "{body}{key}"}},
        "holds {body} once",
    ),
    "one header for two": (
        {"auth": {"type": "hmac", "secret": "S", "header": "x", "timestamp_header": "X"}},
        "two headers",
    ),
    "a tolerance of a day": ({"auth": {"type": "slack", "secret": "S", "tolerance": "1d"}}, "from 1s to 1h"),
    "a user with a colon": (
        {"auth": {"type": "basic", "secret": "S", "user": "a:b"}},
        "it must have the form",
    ),
    "a field that is not there": (
        {"auth": {"type": "github", "secret": "S", "header": "x"}},
        "there is no such field",
    ),
    "a secret header that is kept": (
        {"auth": {"type": "token", "secret": "S", "header": "x-key"}, "headers": ["X-Key"]},
        "x-key would put credentials into events",
    ),
    "cookies that are kept": ({"auth": {"type": "github", "secret": "S"}, "headers": ["cookie"]}, "cookie"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_configurations_are_refused_with_the_reason(name: str) -> None:
    config, why = WRONG[name]
    with pytest.raises(Invalid) as refused:
        registry.parse_config(WebhookSource(), config)
    assert why in str(refused.value)
    assert "hunter2" not in str(refused.value)
