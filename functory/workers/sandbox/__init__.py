"""Runs function code: one forked child for each execution, never the worker's own process.

``runner`` is the public interface (``Runner.run``, ``Runner.inspect``). ``protocol`` holds what crosses the
fork: jobs, outcomes, and the closed set of frames in which the child answers. ``pool`` keeps zygotes and
children, ``supervision`` watches one run, ``guest`` runs inside the child, ``confinement`` takes the child's
rights away, ``network`` makes its granted connections, ``checks`` finds out what this machine offers. The
worker's side trusts nothing that the guest sends.
"""
