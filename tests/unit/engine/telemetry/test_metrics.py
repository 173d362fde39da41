"""Metrics: many equal observations at the cost of one."""

import pytest
from prometheus_client import CollectorRegistry, Histogram

from functory.engine.telemetry import metrics


@pytest.mark.parametrize("value", [0.0, 1.0, 1.5, 2.0, 99.0])
def test_many_observations_of_a_value_count_as_single_ones_do(value):
    shown = []
    for many in (True, False):
        registry = CollectorRegistry()
        histogram = Histogram("seconds", "Text.", registry=registry, buckets=(1, 2, 3))
        if many:
            metrics.observe_many(histogram, value, 3)
        else:
            for _ in range(3):
                histogram.observe(value)
        shown.append(
            [
                (one.name, one.labels, one.value)
                for family in registry.collect()
                for one in family.samples
                if not one.name.endswith("_created")
            ]
        )
    assert shown[0] == shown[1]
