"""Loads the versions that an execution consists of and makes their dependencies callable by bare name.

Each version has a module of its own, so two versions of one function live side by side. A module is
executed when it is first needed. What a version finds under the name of a dependency is a wrapper that
records the call as a span and otherwise stays out of the way: values and exceptions pass untouched.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from functory.workers.sandbox.guest.call_recorder import CallRecorder
from functory.workers.sandbox.guest.own_modules import OwnModules
from functory.workers.sandbox.guest.tracebacks import file_name
from functory.workers.sandbox.protocol.job import Code

# Annotations stay text: a name that exists only in the file of the function must not stop it.
_FLAGS = __future__.annotations.compiler_flag


class Linker:
    """The codes of one execution, or of several of one version: each sets its own ``recorder``.

    ``function(key)`` may be called from any thread. ``loading`` makes the context in which a source is executed.
    """

    def __init__(
        self,
        codes: dict[str, Code],
        recorder: CallRecorder,
        loading: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._codes = codes
        self.recorder = recorder
        self._loading = loading
        self._lock = threading.RLock()
        self._functions: dict[str, Callable] = {}

    def function(self, key: str) -> Callable:
        """Return the function that the version ``key`` defines; raises the errors of its source."""
        function = self._functions.get(key)
        if function is None:
            with self._lock:
                function = self._functions.get(key)
                if function is None:
                    with self._loading():
                        function = self._functions[key] = self._load(self._codes[key])
        return function

    def _load(self, code: Code) -> Callable:
        names = {name: self._dependency(name, key) for name, key in code.dependencies.items()}
        namespace = execute(code.source, code.key, code.imports, names, code.modules)
        function = namespace.get(code.name)
        if not callable(function):
            raise NameError(f"the source of {code.key} does not define a function {code.name!r}")
        return function

    def _dependency(self, name: str, key: str) -> Callable:
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await self._call_async(key, args, kwargs)

        def called(*args: Any, **kwargs: Any) -> Any:
            return self._call(key, args, kwargs)

        dependency = awaited if self._codes[key].is_async else called
        dependency.__name__ = dependency.__qualname__ = name
        return dependency

    def _function_for_span(self, key: str, args: tuple, kwargs: dict) -> Callable:
        try:
            return self.function(key)
        except BaseException as error:
            self.recorder.open(key, None, args, kwargs).fail(error)
            raise

    def _call(self, key: str, args: tuple, kwargs: dict) -> Any:
        function = self._function_for_span(key, args, kwargs)
        span = self.recorder.open(key, function, args, kwargs)
        try:
            with span:
                value = function(*args, **kwargs)
        except BaseException as error:
            span.fail(error)
            raise
        if inspect.iscoroutine(value):
            return self._await_in_span(span, value)
        span.close(value)
        return value

    async def _call_async(self, key: str, args: tuple, kwargs: dict) -> Any:
        function = self._function_for_span(key, args, kwargs)
        span = self.recorder.open(key, function, args, kwargs)
        return await self._await_in_span(span, function(*args, **kwargs))

    @staticmethod
    async def _await_in_span(span: Any, coroutine: Coroutine) -> Any:
        try:
            with span:
                value = await coroutine
        except BaseException as error:
            span.fail(error)
            raise
        span.close(value)
        return value


def execute(
    source: str,
    key: str,
    imports: Sequence[str],
    names: dict[str, Any],
    modules: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Execute source as the module ``key`` with ``names`` there from the start; returns its namespace.

    It may import its own ``modules``, which no other source can.

    The module is registered, and its lines too, as dataclasses, pickle and tracebacks expect.
    """
    file = file_name(key)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ModuleType(key)
    sys.modules[key] = module
    namespace = module.__dict__
    namespace.update(names, __file__=file)
    if modules:
        OwnModules(key, modules).bind(namespace)
    for text in imports:
        import_into(namespace, text, file)
    exec(compile(source, file, "exec", flags=_FLAGS, dont_inherit=True), namespace)  # noqa: S102 - this is the child
    return namespace


def import_into(namespace: dict[str, Any], text: str, file: str) -> None:
    """Do one import: ``json``, ``numpy as np``, ``import json`` or ``from os import path``."""
    statement = text if text.startswith(("import ", "from ")) else f"import {text}"
    tree = ast.parse(statement, file)
    if not all(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body):
        raise ImportError(f"{text!r} is not an import")
    exec(compile(tree, file, "exec", dont_inherit=True), namespace)  # noqa: S102 - imports only, in the child
