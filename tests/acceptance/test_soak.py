"""The soak as a command: a short one starts its deployment, samples it and asks the invariants."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(600)
def test_a_short_soak_samples_every_role_and_ends_with_the_invariants(tmp_path: Path) -> None:
    out = tmp_path / "samples.jsonl"
    options = ["--minutes", "0.4", "--rate", "3", "--broker", "redis", "--out", str(out)]
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "invariants broken: none" in said.stdout, said.stdout + said.stderr
    samples = [json.loads(line) for line in out.read_text().splitlines()]
    # In so short a time something may grow; that is for the status to say.
    assert said.returncode in (0, 1)
    assert len(samples) == 3
    for role in ("router", "scheduler", "worker"):
        assert all(sample[f"{role}.mib"] > 0 for sample in samples), samples
    assert samples[-1]["sent"] > 0
