"""Describes an exception for its author: the user's code with its lines, and none of Functory's."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import msgspec

from functory.engine.serialization.python_values import escape_surrogates, type_name
from functory.workers.sandbox.protocol.frames import CodeFrame, ErrorInfo

_OWN_FOLDER = str(Path(__file__).parents[1])
_FILE = re.compile(r"<functory:(.+)@(\d+)(?:/(.+))?>")
_CHARACTERS = 60_000
_FRAMES = 100  # of each end of a trace: a recursion's middle repeats itself


def file_name(key: str, module: str = "") -> str:
    """Return the file name of code ``name@version``, or of one of its modules, in tracebacks."""
    return f"<functory:{key}/{module.replace('.', '/')}.py>" if module else f"<functory:{key}>"


def describe(error: BaseException) -> ErrorInfo:
    """Build the error of an execution. Calls the exception's ``__str__``, which is user code."""
    trace = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    seen: set[int] = set()
    _prune(trace, seen)
    try:
        message = str(error)
    except Exception:
        message = "<str failed>"
    return ErrorInfo(
        type=type_name(type(error)),
        message=_bounded(message),
        traceback=_bounded("".join(trace.format())),
        frames=_frames(trace, error),
    )


def describe_refusal(info: ErrorInfo, error: BaseException, refusal: str) -> ErrorInfo:
    """Return ``info``, the description of ``error``, for a connection that was refused with the text ``refusal``: its
    traceback has the lines of the user's code alone, and no error of each client library on the way.

    The message is the refusal, below the user's own words where user code has raised the error.
    """
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if _FILE.fullmatch(line.filename)]
    is_own = bool(own) and lines[-1] is own[-1] and refusal not in info.message
    message = f"{info.message}\n{refusal}" if is_own else refusal
    frames = traceback.StackSummary.from_list(own[:_FRAMES] + own[_FRAMES:][-_FRAMES:])
    text = "".join(["Traceback (most recent call last):\n", *frames.format(), f"{info.type}: {message}\n"])
    return msgspec.structs.replace(info, message=_bounded(message), traceback=_bounded(text))


def _bounded(text: str) -> str:
    text = escape_surrogates(text)
    if len(text) <= _CHARACTERS:
        return text
    half = _CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _prune(trace: traceback.TracebackException | None, seen: set[int]) -> None:
    """Drop the frames of this package and, before the first line of user code, of the libraries it uses."""
    if trace is None or id(trace) in seen:
        return
    seen.add(id(trace))
    stack = trace.stack
    kept = [line for line in stack if not line.filename.startswith(_OWN_FOLDER)]
    first = next((index for index, line in enumerate(kept) if _FILE.fullmatch(line.filename)), len(kept))
    kept = kept[first:]
    if len(kept) > 2 * _FRAMES:
        kept = kept[:_FRAMES] + kept[-_FRAMES:]
    stack[:] = kept
    _prune(trace.__cause__, seen)
    _prune(trace.__context__, seen)
    for inner in getattr(trace, "exceptions", None) or ():
        _prune(inner, seen)


def _frames(trace: traceback.TracebackException, error: BaseException) -> list[CodeFrame]:
    lines = [(line.filename, line.lineno, line.line) for line in trace.stack]
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "", error.lineno, (error.text or "").strip()))
    frames = []
    for file, number, text in lines:
        if match := _FILE.fullmatch(file):
            frames.append(
                CodeFrame(
                    function=match[1],
                    version=int(match[2]),
                    module=match[3] or "",
                    line=number or 0,
                    code=escape_surrogates(text or "")[:2000],
                )
            )
    return frames[:_FRAMES] + frames[_FRAMES:][-_FRAMES:]
