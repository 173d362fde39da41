"""Code says that its error is final, or when to try again; limits say it of the errors of packages."""

from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.errors import ExecutionFailed
from functory.explanations import executions as explanations
from tests.support.world import lines

pytest_plugins = ["tests.support.world"]


def ended(engine: Functory, *body: str, **limits: Any) -> dict[str, Any]:
    """The execution of a function with 3 retries and this body."""
    source = lines(
        "from functory import Final, RetryAfter, execution",
        "import urllib.error",
        "class NotPayable(LookupError): ...",
        "class Blocked(Final): ...",
        "def pay():",
        *(f"    {one}" for one in body),
    )
    engine.functions.save(source, name="pay", limits={"retries": 3, "retry_delay": 0.01} | limits)
    handle = engine.submit("pay")
    try:
        handle.result(60)
    except ExecutionFailed:
        pass
    return engine.executions.get(handle.id)


@pytest.mark.parametrize(
    ("body", "limits", "attempts", "why"),
    [
        ('raise Final("blocked")', {}, 1, "its code raised Final"),
        ('raise Blocked("blocked")', {}, 1, "its code raised Final"),
        ('raise Final("blocked") from KeyError("x")', {}, 1, "its code raised Final"),
        ('raise NotPayable("blocked")', {"final_on": ["NotPayable"]}, 1, "final_on names NotPayable"),
        ('raise NotPayable("blocked")', {"final_on": ["LookupError"]}, 1, "final_on names LookupError"),
        ('raise NotPayable("blocked")', {"retry_on": ["OSError"]}, 1, "retry_on names only OSError"),
        ('raise NotPayable("blocked")', {"retry_on": ["LookupError"]}, 4, None),
        ('raise urllib.error.URLError("x")', {"final_on": ["urllib.error.URLError"]}, 1, "names urllib.error.URLError"),
        ('raise urllib.error.URLError("x")', {"final_on": ["urllib.URLError"]}, 1, "final_on names urllib.URLError"),
        ("while True: pass", {"final_on": ["TimedOut"], "timeout": 0.2}, 1, "final_on names TimedOut"),
        ('raise NotPayable("blocked")', {}, 4, None),
    ],
)  # fmt: skip
def test_attempts_end_where_the_error_is_final(
    engine: Functory, body: str, limits: dict[str, Any], attempts: int, why: str | None
) -> None:
    row = ended(engine, body, **limits)
    assert row["attempt"] == attempts
    assert (why or "") in row["error"].get("final", "")
    said = " ".join(explanations.explain(engine.lineage.cause(row["id"]), format_time=lambda time: str(time)))
    assert (why or "its 3 retries are used up") in said


def test_retry_after_names_the_wait(engine: Functory) -> None:
    row = ended(
        engine,
        "if execution.attempt < 3:",
        "    raise RetryAfter(0.05)",
        "return execution.attempt",
        retry_delay=3600,
        retry_max_delay=3600,
    )
    assert (row["state"], row["result"]) == ("succeeded", 3)


def test_retry_after_ends_with_the_retries(engine: Functory) -> None:
    row = ended(engine, "raise RetryAfter(0)")
    assert (row["state"], row["attempt"], row["error"]["type"]) == ("failed", 4, "functory.RetryAfter")


def test_the_retry_after_of_a_service_is_honoured(engine: Functory) -> None:
    row = ended(
        engine,
        "from email.message import Message",
        "headers = Message()",
        'headers["Retry-After"] = "1"',
        "if execution.attempt < 2:",
        '    raise urllib.error.HTTPError("http://x", 429, "busy", headers, None)',
        "return execution.attempt",
        retry_delay=3600,
        retry_max_delay=3600,
    )
    assert (row["state"], row["result"]) == ("succeeded", 2)


def test_the_decorator_takes_the_names(engine: Functory) -> None:
    @engine.register_function(retries=3, final_on=["LookupError"])
    def look() -> None:
        raise KeyError("x")

    handle = engine.submit("look")
    with pytest.raises(ExecutionFailed):
        handle.result(60)
    assert engine.executions.get(handle.id)["attempt"] == 1
