"""The user that a process runs as, for texts and for the author of changes."""

from __future__ import annotations

import os
import pwd


def os_user() -> str:
    """Return the user's name; the number of a user without an entry in the password file, as in many containers."""
    named = os.environ.get("USER") or os.environ.get("LOGNAME")
    if named:
        return named
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
