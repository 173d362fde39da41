"""What a granted host may be written as, and which connections it allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.access.host_grants import HostGrant, allows, format_grant, normalize, parse
from functory.engine.errors import Invalid


@pytest.mark.parametrize(
    ("text", "canonical", "ports"),
    [
        ("api.example.com", "api.example.com", (80, 443)),
        (" API.Example.COM. ", "api.example.com", (80, 443)),
        ("api.example.com:8443", "api.example.com:8443", (8443,)),
        ("api.example.com:443", "api.example.com:443", (443,)),
        ("*.example.com", "*.example.com", (80, 443)),
        ("*.Example.com.:8080", "*.example.com:8080", (8080,)),
        ("*", "*", (80, 443)),
        ("*:22", "*:22", (22,)),
        ("203.0.113.7", "203.0.113.7", (80, 443)),
        ("203.0.113.7:5432", "203.0.113.7:5432", (5432,)),
        ("[2001:DB8:0::1]:443", "[2001:db8::1]:443", (443,)),
        ("2001:db8::1", "[2001:db8::1]", (80, 443)),
        ("localhost", "localhost", (80, 443)),
        ("_service.my_host.test", "_service.my_host.test", (80, 443)),
        ("straße.de", "xn--strae-oqa.de", (80, 443)),
        ("例え.テスト:81", "xn--r8jz45g.xn--zckzah:81", (81,)),
        ("\uff21\uff30\uff29.example\u3002com", "api.example.com", (80, 443)),  # as wide characters
    ],
)
def test_a_grant_has_one_plain_form(text: str, canonical: str, ports: tuple[int, ...]) -> None:
    grant = parse(text)
    assert (str(grant), grant.ports) == (canonical, ports)
    assert parse(str(grant)) == grant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("https://api.example.com/v1", "try: api.example.com"),
        ("https://me:word@api.example.com:8443/v1?x=1", "try: api.example.com:8443"),
        ("api.example.com/v1", "try: api.example.com"),
        ("me@api.example.com", "try: api.example.com"),
        ("api.example.com:", "not a port"),
        ("api.example.com:https", "not a port"),
        ("api.example.com:0", "not a port"),
        ("api.example.com:65536", "not a port"),
        ("api.example.com:٤٤", "not a port"),
        ("api.*.com", "wildcard"),
        ("api*.example.com", "wildcard"),
        ("*.com", "wildcard"),
        ("*.10.0.0.1", "wildcard"),
        ("*.", "empty"),
        ("a..b", "empty"),
        (".example.com", "empty"),
        ("-a.example.com", "not a part"),
        ("a b.example.com", "not a part"),
        ("a\n.example.com", "not a part"),
        ("a" * 64 + ".com", "not a part"),
        ("a." * 130 + "com", "at most 253"),
        ("127.1", "number"),
        ("0x7f000001", "number"),
        ("2130706433", "number"),
        ("127.0.0.01", "number"),
        ("①27.1", "number"),
        ("fe80::1%eth0", "colon"),
        ("[api.example.com]:80", "brackets"),
        ("[2001:db8::1", "brackets"),
        ("[2001:db8::1]443", "brackets"),
        ("2001:db8::1::2", "colon"),
        ("\udcff.example.com", "name"),
    ],
)
def test_what_is_no_grant_says_what_to_write_instead(text: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert says in str(caught.value)
    assert caught.value.try_


@pytest.mark.parametrize(
    ("grant", "host", "port", "allowed"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "API.example.com.", 80, True),
        ("api.example.com", "api.example.com", 8443, False),
        ("api.example.com", "x.api.example.com", 443, False),
        ("api.example.com", "api.example.com.evil.test", 443, False),
        ("api.example.com:8443", "api.example.com", 8443, True),
        ("api.example.com:8443", "api.example.com", 443, False),
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com", ".example.com", 443, False),
        ("203.0.113.7", "203.0.113.7", 80, True),
        ("203.0.113.7", "203.0.113.70", 80, False),
        ("[2001:db8::1]", "2001:0DB8::0001", 443, True),
        ("[2001:db8::1]", "[2001:db8::1]", 443, False),
        ("straße.de", "xn--strae-oqa.de", 443, True),
        ("straße.de", "strasse.de", 443, False),
        ("*", "anything.test", 443, True),
        ("*", "198.51.100.1", 80, True),
        ("*", "anything.test", 22, False),
        ("*", "127.1", 80, False),
        ("*", "0177.0.0.1", 80, False),
        ("*", "a\x00.test", 80, False),
        ("*", "", 80, False),
        ("*", "*", 80, False),
    ],
)
def test_a_grant_allows_what_it_names_and_nothing_else(
    grant: str, host: str, port: int, allowed: bool
) -> None:
    assert allows([parse(grant)], host, port) is allowed


def test_one_of_several_grants_is_enough_and_none_allow_nothing() -> None:
    grants = [parse("a.test"), parse("b.test:99")]
    assert allows(grants, "b.test", 99)
    assert not allows(grants, "a.test", 99)
    assert not allows([], "a.test", 443)


def test_the_grant_that_would_help_is_written_as_one_writes_it() -> None:
    assert format_grant("api.example.com", 80) == "api.example.com"
    assert format_grant("api.example.com", 25) == "api.example.com:25"
    assert format_grant("2001:db8::1", 25) == "[2001:db8::1]:25"


@given(st.text(max_size=300))
def test_any_text_is_a_grant_or_invalid(text: str) -> None:
    try:
        grant = parse(text)
    except Invalid:
        return
    assert isinstance(grant, HostGrant)
    assert parse(str(grant)) == grant
    assert str(grant).isascii()


@given(st.text(max_size=60), st.integers(1, 65_535))
def test_normalising_twice_changes_nothing(host: str, port: int) -> None:
    try:
        once = normalize(host)
    except Invalid:
        assert not allows([parse("*"), parse(f"*:{port}")], host, port)
        return
    assert normalize(once) == once
    assert allows([parse(format_grant(once, port))], host, port)
