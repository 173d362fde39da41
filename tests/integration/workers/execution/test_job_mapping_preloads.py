"""A worker imports ahead only the packages that a preload grant names."""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database import schema
from functory.workers.execution.job_mapping import job_from_claim
from tests.support.granted_claims import SERVED, claimed

pytest_plugins = ["tests.support.world"]


def preload(world) -> tuple[str, ...]:
    return job_from_claim(claimed(world), ("/packages",), {}).preload


def test_a_job_names_the_packages_that_were_granted_to_be_imported_ahead(make_world):
    served = make_world(**SERVED)
    served.function("work", imports=["numpy as np", "yaml"])
    with served.database.write() as tx:
        tx.execute(sa.update(schema.function_version).values(environment="k" * 64))
    assert preload(served) == ()
    served.grant_approvals.allow("work", 1, "preload", "yaml", reason="asked for")
    assert preload(served) == ("yaml",)


def test_embedded_every_declared_import_is_granted(world):
    world.function("work", imports=["numpy as np", "yaml", "json"])
    with world.database.write() as tx:
        tx.execute(sa.update(schema.function_version).values(environment="k" * 64))
    assert preload(world) == ("numpy", "yaml")
