"""Names the properties that executions must share to run in children of one zygote."""

from __future__ import annotations

import msgspec

from functory.workers.sandbox.protocol.job import Job
from functory.workers.sandbox.protocol.plan import Plan, Tier


class PoolKey(msgspec.Struct, frozen=True, kw_only=True):
    """Environment, trust domain and grants: children with different ones never share a zygote."""

    packages: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    """The limits of an import by the zygote: those of the function that names it. 0 where it imports nothing."""
    trust_domain: str = ""
    hosts: tuple[str, ...] = ()
    ca_file: str = ""
    """The certificate authorities that clients trust instead of the machine's; empty without a granted host."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    subprocess: bool = False
    inspecting: bool = False

    def plan(self, tier: Tier, base: str, first_id: int) -> Plan:
        """Build the plan of a zygote with this key."""
        return Plan(
            tier=tier,
            base=base,
            packages=self.packages,
            preload=self.preload,
            memory_bytes=self.memory_bytes,
            ca_file=self.ca_file,
            read=self.read,
            write=self.write,
            subprocess=self.subprocess,
            network=bool(self.hosts),
            inspecting=self.inspecting,
            first_id=first_id,
        )


def pool_key_of(job: Job, ca_file: str = "") -> PoolKey:
    """Return the pool key of the zygotes that may run ``job``."""
    grants = job.grants
    return PoolKey(
        packages=job.packages,
        preload=job.preload,
        memory_bytes=job.limits.memory_bytes if job.preload else 0,
        cpu_seconds=job.limits.cpu_seconds if job.preload else 0.0,
        trust_domain=job.trust_domain,
        hosts=grants.hosts,
        ca_file=ca_file if grants.hosts else "",
        read=grants.read,
        write=grants.write,
        subprocess=grants.subprocess,
    )
