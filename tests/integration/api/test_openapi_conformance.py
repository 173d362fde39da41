"""Requests that schemathesis makes from the description of the API: none is a defect, and all answers fit it.

One request a route here; many in the long tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel, SecretStr
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from functory.api import create_app
from functory.client.functory import Functory
from tests.support.world import embedded

pytest_plugins = ["tests.support.world"]

LOCAL = "http://127.0.0.1:7400"
PASSWORD = "correct horse battery"
# Statuses of problems, which any route may answer.
PROBLEMS = {400, 401, 403, 404, 409, 412, 413, 415, 421, 422, 429, 503, 504}
# The many requests are asked in as many tests.
PARTS = 6
# The stream ends by itself never. Without a provider there is no login by one.
LEFT_OUT = ("stream.open",)
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def functory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    with embedded(tmp_path_factory.mktemp("conformance")) as opened:
        opened.functions.save("def work(**given):\n    return given\n")
        opened.save_trigger("watch", on={"type": ["a.b"]}, function="work")
        opened.emit("a.b", {"n": 1})
        opened.settle()
        yield opened


class Answer(BaseModel):
    """What the routes below say that they answer."""

    number: int


def client_of(functory: Functory, who: str) -> TestClient:
    headers = {}
    if who != "stranger":
        name = f"{who}s-user"
        if name not in {row["name"] for row in functory.users.list()}:
            functory.users.create(name, SecretStr(PASSWORD), role=who)  # type: ignore[arg-type]
        # The same user has one for the few requests and one for the many.
        token = functory.tokens.create(name, f"test {len(functory.tokens.list(name)) + 1}")
        headers = {"authorization": f"Bearer {token['token']}"}
    return TestClient(create_app(functory), base_url=LOCAL, headers=headers, raise_server_exceptions=False)


def faults(client: TestClient, app: FastAPI, examples: int, part: int = 0, parts: int = 1) -> list[str]:
    """What is wrong with the answers to ``examples`` requests of each route, a line each. Of ``parts`` of equal size
    only the routes of one ``part`` are asked.
    """
    found = []
    for place, result in enumerate(schemathesis.openapi.from_dict(app.openapi()).get_all_operations()):
        operation: Any = result.ok()
        name = operation.definition.raw.get("operationId", operation.label)
        if place % parts == part and name not in LEFT_OUT and operation.path.startswith("/api/v1"):
            found += [f"{name}: {what}" for what in faults_of(operation, client, examples)[:1]]
    return sorted(found)


def faults_of(operation: Any, client: TestClient, examples: int) -> list[str]:
    """The same for one route."""
    found: list[str] = []
    documented = set(operation.definition.raw["responses"])

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def try_it(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url=LOCAL)
        try:
            answer = client.request(
                sent["method"],
                sent["url"],
                params=sent.get("params"),
                headers=dict(sent.get("headers") or {}),
                json=sent.get("json"),
                follow_redirects=False,
            )
        except (UnicodeError, httpx.InvalidURL):
            # What no client can send.
            return
        try:
            if answer.status_code in PROBLEMS:
                assert answer.headers["content-type"] == "application/problem+json", "no problem"
                assert answer.json()["status"] == answer.status_code
            else:
                assert {str(answer.status_code), f"{answer.status_code // 100}XX"} & documented, (
                    "no such status"
                )
                # Rows with some of their fields are not described.
                checks = CHECKS[:-1] if "fields" in answer.request.url.params else CHECKS
                case.validate_response(answer, checks=checks)
        except BaseException as error:
            if not isinstance(error, Exception | BaseExceptionGroup):
                raise
            body = answer.request.content[:200]
            found.append(
                f"{sent['method']} {answer.request.url} {body!r} → {answer.status_code} {error!s:.600}"
            )

    try_it()
    return found


@pytest.mark.parametrize("who", ["admin", "viewer", "stranger"])
def test_a_request_of_each_route_is_answered_as_described(functory: Functory, who: str) -> None:
    client = client_of(functory, who)
    app: Any = client.app
    found = faults(client, app, examples=1)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("who", ["admin", "viewer", "stranger"])
def test_many_requests_of_each_route_are_answered_as_described(
    functory: Functory, who: str, part: int
) -> None:
    client = client_of(functory, who)
    app: Any = client.app
    found = faults(client, app, 60, part, PARTS)
    assert not found, "\n".join(found)


def test_a_route_that_fails_or_breaks_its_description_is_found() -> None:
    app = FastAPI()

    @app.get("/api/v1/fails", operation_id="fails")
    def fails(n: int) -> Answer:
        return Answer(number=1 // (n - n))

    @app.get("/api/v1/lies", operation_id="lies", response_model=None, responses={200: {"model": Answer}})
    def lies(n: int) -> dict[str, str]:
        return {"number": "none"}

    @app.get("/api/v1/works", operation_id="works")
    def works(n: int) -> Answer:
        return Answer(number=1)

    client = TestClient(app, base_url=LOCAL, raise_server_exceptions=False)
    # FastAPI's own 422 is no problem of ours: only these two are looked at.
    found = [one.partition(":")[0] for one in faults(client, app, examples=5)]
    assert found == ["fails", "lies"]
