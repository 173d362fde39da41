"""Configuration of a zygote and its children: plain records that the worker writes and the zygote follows.

The worker sends one ``Plan`` when it starts a zygote and one ``ForkRequest`` for each child. The zygote
trusts both; neither ever comes from function code.
"""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

Tier = Literal["A", "B", "C", "none"]

MAX_CHILDREN = 256
"""Maximum number of living children of one zygote; in tier A each slot has a user id of its own."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One zygote: its confinement, and what all its children find."""

    tier: Tier
    base: str
    """The worker's folder for this zygote: the mount point of its root, or the parent of scratch folders."""
    packages: tuple[str, ...] = ()
    """``site-packages`` folders in the order of the search: the entry's own, then its dependencies'."""
    preload: tuple[str, ...] = ()
    """Modules that are imported once, in the zygote, after it is confined."""
    memory_bytes: int = 0
    """Address space of the zygote, set before packages are imported; 0 where it imports none."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    """Granted paths: absolute, and there when the zygote starts."""
    ca_file: str = ""
    """A file of certificate authorities that children may read; empty where they use the machine's."""
    subprocess: bool = False
    network: bool = False
    """Children are given a socket to the broker of granted hosts, as descriptor 4."""
    inspecting: bool = False
    """Children only describe signatures: the modules for it are loaded first."""
    first_id: int = 0
    """The first of the host's ids that this zygote and its slots use; 0 where it has only its own."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that the kernel enforces on one child. Sizes in bytes; ``job.ChildLimits`` describes each."""

    cpu_seconds: float
    memory_bytes: int
    file_bytes: int
    open_files: int
    threads: int
    processes: int
    scratch_bytes: int
    scratch_files: int
    reusable: bool = False
    """The child runs many executions: the worker watches the CPU time of each."""


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one child.

    Its descriptors are attached in this order: channel, stdout, stderr, status, the broker's socket where the
    plan has a network or else the pipe of tickets where there is one, and ``cgroups`` files of control groups that
    the child enters first of all.
    """

    bounds: Bounds
    slot: int
    scratch: str = ""
    """The child's folder in tiers without a mount namespace."""
    cgroups: int = 0
    tickets: bool = False
    """A pipe of tickets is attached, as descriptor 4: each byte lets one passenger of a train begin."""
    spare: bool = False
    """There is no task for it yet: it practises before it waits for one."""


READY, FAILED = b"ready", b"failed"

STATUS = struct.Struct("<cidq")  # word, number, CPU seconds, bytes

STARTED, ENDED, REFUSED = b"s", b"e", b"r"

PLAN_BYTES = 1_048_576
