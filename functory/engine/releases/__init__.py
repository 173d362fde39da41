"""Releases: how a version of a function becomes the active one.

A proposal (:mod:`functory.engine.releases.proposals`) is a version that waits. Its checks
(:mod:`functory.engine.releases.checks`) run in the sandbox of a worker (:mod:`functory.workers.gate`). The rules of
policies (:mod:`functory.engine.releases.gate_policies`) say what it must show and who decides.
"""
