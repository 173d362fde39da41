"""Granted hosts: the worker makes the connections that a sandboxed function asks for, and relays their bytes.

``Runner`` keeps one ``Broker``, opens a door for each run that is granted hosts, and closes it when the run ends:

    child_end = broker.open(run_id, ("api.example.com",), bytes_limit)   # becomes fd 4 of the child
    traffic = broker.close(run_id)

For each ``Connect`` that comes out of the sandbox (see ``network``) the host and port must be granted; the name is
resolved here, once, and the connection is made to an address of that answer: no second lookup, so an answer that
changes has no effect. Addresses that are not public are refused unless the operator lists their network, and then only
for hosts that are granted by name. A redirect needs nothing of its own: following it is another ``Connect``.

The child is never trusted. What is not a well-formed request, in order, ends its network; no descriptor of
it is ever received; connections, lookups, requests and bytes are bounded, and so is what is held for it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable

from functory.engine.access import host_grants
from functory.engine.errors import Unavailable
from functory.workers.sandbox.network import addresses
from functory.workers.sandbox.network.dns import DnsResolver, Resolve, resolve_with_system
from functory.workers.sandbox.network.egress import RunEgress, Traffic
from functory.workers.sandbox.network.event_loop import EventLoop

__all__ = ["ConnectionBroker", "Traffic"]


class ConnectionBroker:
    """All methods may be called from any thread, and in a forked copy of the worker, which starts with no runs.

    ``private_networks`` are CIDRs (``Invalid`` for what is none); ``monotonic`` gives seconds.
    """

    def __init__(
        self,
        private_networks: Iterable[str] = (),
        resolve: Resolve = resolve_with_system,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._private = addresses.networks(private_networks)
        self._resolve = resolve
        self._monotonic = monotonic
        self._renew()
        _brokers.add(self)

    def open(self, run_id: str, grants: Iterable[str], bytes_limit: int) -> socket.socket:
        """A door for one run; returns the child's end, which the caller closes when the child has it.

        ``Invalid`` for a grant that is none, ``Unavailable`` when the broker has stopped, ValueError for an
        id that is in use.
        """
        granted = tuple(host_grants.parse(text) for text in grants)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with self._lock:
            if self._stopped or run_id in self._runs:
                ours.close()
                theirs.close()
                if self._stopped:
                    raise Unavailable(
                        "the broker is closed", "the worker is shutting down", "start another worker"
                    )
                raise ValueError(f"run {run_id} has a door already")
            run = self._runs[run_id] = RunEgress(
                run_id, ours, granted, bytes_limit, self._private, self._event_loop, self._resolver
            )
            self._event_loop.submit(run.start)
        return theirs

    def close(self, run_id: str) -> Traffic:
        """Close all connections of a run and its door; returns what it did. An unknown run did nothing."""
        with self._lock:
            run = self._runs.pop(run_id, None)
        if run is None:
            return Traffic()
        try:
            return self._event_loop.submit(run.close).result()
        except RuntimeError:
            # Stopped meanwhile, and the run closed with it.
            return run.traffic()

    def open_period(self, run_id: str) -> Traffic:
        """What a run that goes on did since the last lap; its limits begin anew. For processes that are reused."""
        with self._lock:
            run = self._runs.get(run_id)
        return Traffic() if run is None else self._event_loop.submit(run.open_period).result()

    def stop(self) -> None:
        """Close every run, and end the thread. The broker opens nothing afterwards."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            runs = list(self._runs.values())
        for run in runs:
            self._event_loop.submit(run.close).result()
        self._event_loop.stop()
        self._resolver.stop()

    def after_fork(self) -> None:
        """In a forked copy: let go of the original's runs, and end nothing of them."""
        self._event_loop.close_inherited()
        stopped = self._stopped
        self._renew()
        self._stopped = stopped

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._runs: dict[str, RunEgress] = {}
        self._event_loop = EventLoop("functory-broker", self._monotonic)
        self._resolver = DnsResolver(self._resolve)


_brokers: weakref.WeakSet[ConnectionBroker] = weakref.WeakSet()


def _after_fork() -> None:
    for broker in list(_brokers):
        broker.after_fork()


os.register_at_fork(after_in_child=_after_fork)
