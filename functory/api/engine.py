"""The engine behind the routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from functory.client.functory import Functory


def engine_of(request: Request) -> Functory:
    """The engine that the application was made with."""
    return request.app.state.functory


Engine = Annotated[Functory, Depends(engine_of)]
