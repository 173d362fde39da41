"""``--limit name=value``: sizes and times with units."""

import pytest

from functory.cli.input import limit_options
from functory.engine.errors import Invalid
from functory.engine.functions import limits


def test_sizes_and_times_may_have_units() -> None:
    given = ["memory_bytes=1GiB", "scratch_bytes=1048576", "cpu=2m", "timeout=90", "threads=4", "expires=1h"]
    found = limit_options.parse(given)
    assert found == {
        "memory_bytes": 2**30, "scratch_bytes": 2**20, "cpu": 120, "timeout": 90, "threads": 4, "expires": 3600,
    }  # fmt: skip
    assert limits.parse(found).memory_bytes == 2**30


def test_names_of_errors_are_separated_by_commas() -> None:
    found = limit_options.parse(["retry_on=OSError,requests.HTTPError", 'final_on=["KeyError"]'])
    assert found == {"retry_on": ["OSError", "requests.HTTPError"], "final_on": ["KeyError"]}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("memory_bytes", "--limit takes name=value"),
        ("memory_bytes=1GB", "wrong limit memory_bytes '1GB'"),
        ("cpu=soon", "wrong limit cpu 'soon'"),
        ("memory=1", "unknown limit 'memory'"),
        ("threads=many", "wrong limit threads='many'"),
        (
            "memory_bytes=1KiB",
            "wrong limit memory_bytes=1024\nit takes a whole number from 67,108,864 to 1,099",
        ),
    ],
)
def test_a_wrong_limit_is_named(given: str, error: str) -> None:
    with pytest.raises(Invalid) as refused:
        limits.parse(limit_options.parse([given]))
    assert str(refused.value).startswith(error)
