"""Attacks on the sandbox, run for real: each is tried in every tier, and without one where that is safe.

``case`` describes an attack, ``cases_*`` hold them by theme, ``prelude`` is added to their code inside the
sandbox, ``decoys`` are the targets, ``runner_process`` runs them in a process of its own, ``test_attacks``
checks the reports.
"""
