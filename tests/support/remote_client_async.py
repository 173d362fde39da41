"""The asynchronous face of the remote client: each method of the synchronous one, on a thread."""

from __future__ import annotations

import ast

_HEAD = '''"""The operations and verbs of :class:`functory.remote.client.RemoteFunctory` for ``async def``.

``python -m tests.support.remote_client`` makes them from the synchronous ones.

The synchronous client does the work, on threads of its own: the event loop never waits for a socket.
"""

# ruff: noqa: A002, E501

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import UNSET, UnsetType

from functory.remote import operations, rows
from functory.remote.async_base import AsyncBase, AsyncRows, Threads
from functory.remote.client import RemoteFunctory
from functory.remote.connection import ANSWER_SECONDS

'''
# What waits is written by hand (async_base): a thread that waits is one that others want. Decorators save when a module
# is imported, where there is no loop.
_BY_HAND = {"call", "submit", "submit_many", "run", "gather", "close", "register_function", "save_decorated"}


def async_module(operations: str, client: str) -> str:
    """The text of ``functory/remote/aio.py``."""
    text = _HEAD
    for found in ast.parse(operations).body:
        if isinstance(found, ast.ClassDef) and found.name != "Operations":
            text += _class(found)
    text += _root(ast.parse(operations), ast.parse(client))
    return text


def _class(found: ast.ClassDef) -> str:
    text = f'class Async{found.name}:\n    """{ast.get_docstring(found)}"""\n\n'
    text += f"    def __init__(self, sync: operations.{found.name}, threads: Threads) -> None:\n"
    text += "        self._sync = sync\n        self._threads = threads\n\n"
    methods = [one for one in found.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    return text + "\n".join(_method(one, "self._sync") for one in methods) + "\n\n"


def _method(found: ast.FunctionDef, sync: str) -> str:
    returns = ast.unparse(found.returns) if found.returns else "None"
    arguments = ast.unparse(found.args)
    passed = ", ".join(
        [
            *(one.arg for one in [*found.args.posonlyargs, *found.args.args][1:]),
            *(f"{one.arg}={one.arg}" for one in found.args.kwonlyargs),
        ]
        + ([f"**{found.args.kwarg.arg}"] if found.args.kwarg else [])
    )
    doc = (ast.get_docstring(found) or "").replace("\n", "\n        ").replace("\n        \n", "\n\n")
    if returns.startswith("Rows["):
        head = f"    def {found.name}({arguments}) -> Async{returns}:"
        body = f"        return AsyncRows({sync}.{found.name}({passed}), self._threads)"
    else:
        head = f"    async def {found.name}({arguments}) -> {returns}:"
        call = f"lambda: {sync}.{found.name}({passed})" if passed else f"{sync}.{found.name}"
        body = f"        {'' if returns == 'None' else 'return '}await self._threads.run({call})"
    return f'{head}\n        """{doc}"""\n{body}\n'


def _root(operations: ast.Module, client: ast.Module) -> str:
    root = next(one for one in client.body if isinstance(one, ast.ClassDef) and one.name == "RemoteFunctory")
    nouns = next(one for one in operations.body if isinstance(one, ast.ClassDef) and one.name == "Operations")
    text = "class AsyncRemoteFunctory(AsyncBase):\n"
    text += '    """:class:`functory.remote.client.RemoteFunctory` for ``async def``, for use by one event loop."""\n\n'
    text += "    def __init__(\n        self, url: str | None = None, *, token: str | None = None, "
    text += "timeout: float = ANSWER_SECONDS\n    ) -> None:\n"
    text += '        """As :class:`RemoteFunctory`. Nothing is sent yet."""\n'
    text += "        super().__init__(RemoteFunctory(url, token=token, timeout=timeout))\n\n"
    for noun in nouns.body:
        if isinstance(noun, ast.FunctionDef) and not noun.name.startswith("_"):
            name = ast.unparse(noun.returns) if noun.returns else ""
            text += f"    @cached_property\n    def {noun.name}(self) -> Async{name}:\n"
            text += f'        """{ast.get_docstring(noun)}"""\n'
            text += f"        return Async{name}(self._sync.{noun.name}, self._threads)\n\n"
    verbs = [
        one for one in root.body
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and one.name not in _BY_HAND
    ]  # fmt: skip
    return text + "\n".join(_method(one, "self._sync") for one in verbs)
