"""Decides what the error of importing an action's module means: something is missing, or it can never run here."""

from __future__ import annotations

import re

from functory.packs.stackstorm.report import Entry
from functory.packs.stackstorm.requirements import PackRequirements
from functory.packs.stackstorm.source import STACKSTORM_PACKAGES

_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
# Where the modules of a version are in its child.
_ROOT = re.compile(r"\w+@\d+:lib\.?")
# Modules of Python 2 that have another name, or none, in Python 3.
_PYTHON_2 = frozenset(
    {
        "ConfigParser",
        "urllib2",
        "urlparse",
        "httplib",
        "Queue",
        "StringIO",
        "cStringIO",
        "cPickle",
        "__builtin__",
    }
    | {
        "commands",
        "HTMLParser",
        "md5",
        "sets",
        "exceptions",
        "thread",
        "copy_reg",
        "SocketServer",
        "xmlrpclib",
    }
    | {
        "BaseHTTPServer",
        "SimpleHTTPServer",
        "cookielib",
        "Cookie",
        "htmlentitydefs",
        "dummy_thread",
        "itertools.izip",
    }
)


def judge_import(
    entry: Entry, error: str | None, requirements: PackRequirements, packages_known: bool
) -> None:
    """Write the meaning of ``error`` into ``entry``. ``packages_known`` is False without the action's packages."""
    if error is None:
        return
    error = _ROOT.sub("", error)
    match = _MISSING.match(error)
    if match is None:
        if packages_known:
            entry.leave_out(
                f"its module fails when it is imported: {error}",
                "correct it for this Python and for the packages of requirements.txt",
            )
        return
    top = match[1].partition(".")[0]
    if top in STACKSTORM_PACKAGES:
        entry.leave_out(
            f"it imports {match[1]}, a part of StackStorm itself",
            "do the same with functory's call, emit, state or secret",
        )
    elif top in _PYTHON_2:
        entry.leave_out(f"it is for Python 2: it imports {match[1]}", "port it to Python 3")
    elif packages_known or requirements.bringing(top) is None:
        line = requirements.bringing(top)
        where = f"; requirements.txt has {line}" if line else ", which no line of requirements.txt brings"
        entry.need(
            "package",
            top,
            f"the package {top}{where}",
            "add it to requirements.txt and import the pack again",
        )
