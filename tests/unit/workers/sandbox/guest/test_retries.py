"""What an exception says about further attempts is read from any exception, also from a hostile one."""

import email.message
import io
import urllib.error
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from functory import Final, RetryAfter
from functory.workers.sandbox.guest.retries import request_of

NOW = 1_800_000_000.0


def by_urllib(status: int, headers: dict[str, str]) -> Exception:
    message = email.message.Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("http://x", status, "busy", message, io.BytesIO())


def by_httpx(status: int, headers: dict[str, str]) -> Exception:
    response = httpx.Response(status, headers=headers, request=httpx.Request("GET", "http://x"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


def by_requests(status: int, headers: dict[str, str]) -> Exception:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    with pytest.raises(requests.HTTPError) as caught:
        response.raise_for_status()
    return caught.value


def by_plain_mapping(status: int, headers: dict[str, str]) -> Exception:
    error = Exception("as aiohttp raises it")
    error.status, error.headers = status, headers  # type: ignore[attr-defined]
    return error


LIBRARIES = st.sampled_from([by_urllib, by_httpx, by_requests, by_plain_mapping])
SPELLINGS = st.sampled_from(["Retry-After", "retry-after", "RETRY-AFTER"])


@given(LIBRARIES, SPELLINGS, st.sampled_from([429, 503]), st.integers(1, 10**8), st.booleans())
def test_the_wait_of_an_http_error_is_read(
    raised: Any, name: str, status: int, seconds: int, as_date: bool
) -> None:
    at = datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=seconds)
    text = format_datetime(at, usegmt=True) if as_date else str(seconds)
    assert request_of(raised(status, {name: text}), NOW).after == seconds


@given(LIBRARIES, st.sampled_from([400, 404, 500, 502]), st.integers(1, 100))
def test_another_status_has_no_wait(raised: Any, status: int, seconds: int) -> None:
    assert request_of(raised(status, {"Retry-After": str(seconds)}), NOW).after is None


@pytest.mark.parametrize(
    "text", ["0", "-1", "", "soon", "1e400", "9" * 400, "٣", "Wed, 21 Oct 2015 07:28:00 GMT", "nan", "1\n2"]
)
def test_a_header_without_a_wait_is_as_none(text: str) -> None:
    assert request_of(by_plain_mapping(429, {"Retry-After": text}), NOW).after is None


class Hostile(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error",
    [
        Hostile(),
        by_plain_mapping(429, None),  # type: ignore[arg-type]
        by_plain_mapping(429, 5),  # type: ignore[arg-type]
        by_plain_mapping(429, {"Retry-After": 5}),  # type: ignore[dict-item]
        by_plain_mapping("429", {"Retry-After": "5"}),  # type: ignore[arg-type]
    ],
)
def test_strange_attributes_are_no_wait(error: Exception) -> None:
    assert request_of(error, NOW).after is None


@given(st.floats(allow_nan=False) | st.integers())
def test_retry_after_takes_every_number(seconds: float) -> None:
    after = request_of(RetryAfter(seconds), NOW).after
    assert after is not None and 0 <= after <= 1e9
    if 0 <= seconds <= 1e9:
        assert after == seconds


@pytest.mark.parametrize("seconds", ["5", None, True, float("nan"), timedelta(seconds=5)])
def test_retry_after_refuses_what_is_no_number(seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="RetryAfter takes a number of seconds"):
        RetryAfter(seconds)


class Blocked(Final):
    pass


def test_a_subclass_of_final_is_final_and_all_classes_are_named() -> None:
    found = request_of(Blocked("no"), NOW)
    assert found.final
    assert found.types == [f"{__name__}:Blocked", "functory:Final", "builtins:Exception"]
    assert not request_of(ValueError("no"), NOW).final


def test_a_group_counts_with_all_that_it_holds() -> None:
    inner = ExceptionGroup("inner", [RetryAfter(3), RetryAfter(7), KeyError("x")])
    found = request_of(ExceptionGroup("outer", [inner]), NOW)
    assert (found.final, found.after) == (False, 7)
    assert {"builtins:LookupError", "functory:RetryAfter", "builtins:ExceptionGroup"} <= {*found.types}
    assert request_of(ExceptionGroup("outer", [inner, Blocked()]), NOW).final
