"""What happens in sandboxes is counted: starts, limits that were met, requests that were refused, sizes of results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine.errors import FunctoryError
from functory.engine.telemetry import metrics
from tests.support.waiting import wait_for
from tests.support.world import embedded

pytest_plugins = ["tests.support.world"]

FUNCTIONS = {
    "quiet": "def quiet() -> str:\n    return 'x' * 1000\n",
    "reads": "from functory import secret\ndef reads(name: str) -> int:\n    return len(secret(name))\n",
    "spins": "def spins() -> None:\n    while True:\n        pass\n",
    "prints": "def prints() -> list:\n    return ['x' * 1000] * 1000\n",
}


def counted(name: str, **labels: str) -> float:
    """The sum over the series with these labels; names of functions may have no label of their own here."""
    return sum(
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"functory_{name}" and labels.items() <= sample.labels.items()
    )


def more(name: str, do: Callable[[], object], **labels: str) -> float:
    """What ``do`` adds to a metric, as soon as it adds something: results are counted after they are stored."""
    before = counted(name, **labels)
    do()
    wait_for(lambda: counted(name, **labels) > before, f"{name} {labels}")
    return counted(name, **labels) - before


def test_what_happens_in_sandboxes_is_counted(tmp_path: Path) -> None:
    with embedded(tmp_path) as engine:
        engine.functions.save(FUNCTIONS["quiet"], reuse=False)
        engine.functions.save(FUNCTIONS["reads"], secrets=["KEY"])
        engine.functions.save(FUNCTIONS["spins"], limits={"timeout": 0.3})
        engine.functions.save(FUNCTIONS["prints"], limits={"result_bytes": 1024})
        engine.secrets.set("KEY", "a secret of some length")

        def fails(name: str, *given: str) -> Callable[[], object]:
            def call() -> None:
                with pytest.raises(FunctoryError):
                    engine.call(name, *given)

            return call

        tier = engine.runner.tier
        assert more("executions_created_total", _calls(engine, "quiet"), cause="api") == 1
        assert more("sandbox_start_seconds_count", _calls(engine, "quiet"), tier=tier) == 1
        assert more("execution_output_bytes_sum", _calls(engine, "quiet")) >= 1000
        assert more("secret_reads_total", _calls(engine, "reads", "KEY"), result="ok") == 1
        assert more("secret_reads_total", fails("reads", "OTHER"), result="denied") >= 1
        assert more("sandbox_violations_total", fails("reads", "OTHER"), kind="secret") >= 1
        assert more("sandbox_violations_total", fails("spins"), kind="time") >= 1
        assert more("sandbox_violations_total", fails("prints"), kind="output") >= 1


def _calls(engine: Functory, name: str, *given: str) -> Callable[[], object]:
    return lambda: engine.call(name, *given)
