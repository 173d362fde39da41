"""The gate: runs the checks of proposals in the sandbox, without any right and without any effect.

:mod:`functory.workers.gate.gate` takes checks from the database (:mod:`functory.engine.releases.checks`) when a worker
has a slot for them. :mod:`functory.workers.gate.test_runs` runs the tests of a proposal, and
:mod:`functory.workers.gate.mutants` makes the faults that the tests must see.
"""
