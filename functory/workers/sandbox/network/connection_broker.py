"""Makes the connections to granted hosts that sandboxed functions request, and relays their bytes.

``Runner`` keeps one ``ConnectionBroker``. It opens an endpoint for each run that is granted hosts, and closes it when
the run ends:

    child_end = broker.open(run_id, ("api.example.com",), bytes_limit)   # becomes fd 4 of the child
    traffic = broker.close(run_id)

Each ``Connect`` that comes out of the sandbox (see ``functory.workers.sandbox.guest.network``) must name a granted
host and port. The name is resolved here, once, and the connection is made to an address of that answer. There is no
second lookup, so a changed answer (DNS rebinding) has no effect. Addresses that are not public are refused unless the
operator lists their network, and then only for hosts that are granted by name. A redirect needs no rule of its own:
following it is another ``Connect``.

The child is never trusted: ``functory.workers.sandbox.network.granted_connections`` lists its bounds.
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
from functory.workers.sandbox.network.event_loop import EventLoopThread
from functory.workers.sandbox.network.granted_connections import RunEgress, Traffic

__all__ = ["ConnectionBroker", "Traffic"]


class ConnectionBroker:
    """All methods may be called from any thread, and in a forked copy of the worker, which starts with no runs.

    ``private_networks`` are CIDRs (``Invalid`` for any other text); ``monotonic`` returns seconds.
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
        """Open the endpoint of one run. Returns the child's end, which the caller closes once the child has it.

        Raises ``Invalid`` for a malformed grant, ``Unavailable`` when the broker has stopped, ValueError for an id
        that is in use.
        """
        granted = tuple(host_grants.parse(text) for text in grants)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with self._lock:
            if self._stopped or run_id in self._runs:
                ours.close()
                theirs.close()
                if self._stopped:
                    raise Unavailable(
                        "the broker is closed", "the worker is shutting down", "start another worker"
                    )
                raise ValueError(f"run {run_id} has an endpoint already")
            run = self._runs[run_id] = RunEgress(
                run_id, ours, granted, bytes_limit, self._private, self._event_loop, self._resolver
            )
            self._event_loop.submit(run.serve)
        return theirs

    def close(self, run_id: str) -> Traffic:
        """Close a run's endpoint and connections. Returns its traffic; that of an unknown run is empty."""
        with self._lock:
            run = self._runs.pop(run_id, None)
        if run is None:
            return Traffic()
        try:
            return self._event_loop.submit(run.close).result()
        except RuntimeError:
            # The event loop was stopped meanwhile, and the run closed with it.
            return run.traffic()

    def open_period(self, run_id: str) -> Traffic:
        """Return a run's traffic since the last period and start its limits anew: for processes that are reused."""
        with self._lock:
            run = self._runs.get(run_id)
        return Traffic() if run is None else self._event_loop.submit(run.open_period).result()

    def stop(self) -> None:
        """Close every run and end the thread. The broker opens no endpoint afterwards."""
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
        """In a forked copy: close our copies of the original's sockets, and end none of its connections."""
        self._event_loop.close_inherited()
        stopped = self._stopped
        self._renew()
        self._stopped = stopped

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._runs: dict[str, RunEgress] = {}
        self._event_loop = EventLoopThread("functory-broker", self._monotonic)
        self._resolver = DnsResolver(self._resolve)


_brokers: weakref.WeakSet[ConnectionBroker] = weakref.WeakSet()


def _after_fork() -> None:
    for broker in list(_brokers):
        broker.after_fork()


os.register_at_fork(after_in_child=_after_fork)
