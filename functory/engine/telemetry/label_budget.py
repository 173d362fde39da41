"""Label budgets: names become label values only in a bounded number.

Functions and triggers are named by users and by programs, so their number has no bound. A process admits the first few
hundred names; later ones are counted together as ``_other``. The setting ``metrics_name_labels`` narrows this to a list
of pinned names, or to none.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from typing import Literal

OTHER = "_other"

NameLabels = Literal["on", "pinned", "off"]


class LabelBudget:
    """A budget of label values: the first ``size`` names stay as they are, later ones become ``_other``."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._is_open = True
        _budgets.add(self)

    def __call__(self, name: str) -> str:
        if name in self._names:
            return name
        if self._is_open:
            with self._lock:
                if len(self._names) < self._size:
                    self._names.add(name)
                    return name
        return OTHER

    def restrict(self, mode: NameLabels, pinned: Iterable[str] = ()) -> None:
        """Begin anew: ``on`` admits pinned names first and others while there is room, ``pinned`` only those, ``off``
        no name.
        """
        with self._lock:
            self._names = set() if mode == "off" else set(list(dict.fromkeys(pinned))[: self._size])
            self._is_open = mode == "on"

    def after_fork(self) -> None:
        """In the child of a fork: a lock that another thread of the parent held would stay locked for ever."""
        self._lock = threading.Lock()


_budgets: weakref.WeakSet[LabelBudget] = weakref.WeakSet()


def _after_fork() -> None:
    for budget in list(_budgets):
        budget.after_fork()


os.register_at_fork(after_in_child=_after_fork)
