"""A fixture for the tests of servers: what reads longer than a person waits is refused, also on a busy machine."""

from collections.abc import Iterator

import pytest

from functory.api import bounded_reads
from tests.support.patience import patient


@pytest.fixture(scope="package", autouse=True)
def patient_reads() -> Iterator[None]:
    """The servers of this process read as long as a busy machine takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_reads, "READ_SECONDS", patient(bounded_reads.READ_SECONDS * 10))
        yield
