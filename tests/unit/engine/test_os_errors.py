"""An error of the system says what, why and what to try, whatever its number is."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from functory.engine import os_errors
from functory.engine.errors import FunctoryError


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_number_has_a_message_in_three_parts(number: int) -> None:
    found = os_errors.explain(OSError(number, os.strerror(number), "/srv/data"))
    assert found.what and os.strerror(number) in found.why and found.try_
    assert found.what != os.strerror(number)


def test_a_message_names_the_files_and_what_was_to_be_done() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/srv/data")
    assert os_errors.explain(full).what == "/srv/data cannot be written"
    moved = os_errors.explain(
        OSError(errno.EACCES, "Permission denied", "/a", None, "/b"), "the backup failed"
    )
    assert (moved.what, moved.why) == ("the backup failed", "/a and /b: Permission denied")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "/etc/resolv.conf"),
        (TimeoutError("timed out"), "the network between"),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), "ip addr"),
        (OSError(errno.EBADF, "Bad file descriptor"), "/dev/null"),
        (MemoryError(), "ulimit -v"),
        (RuntimeError("can't start new thread"), "ulimit -v"),
    ],
)
def test_errors_without_a_number_are_of_a_kind_too(error: Exception, said: str) -> None:
    assert os_errors.is_of_system(error)
    found = os_errors.explain(error)
    assert isinstance(found, FunctoryError) and found.why and said in found.try_


def test_a_defect_is_not_an_error_of_the_system() -> None:
    assert not os_errors.is_of_system(RuntimeError("dictionary changed size"))
