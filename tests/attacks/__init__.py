"""Attacks on the sandbox, run for real: each is tried in every tier, and without one where that is safe.

``case`` says what an attack is, ``cases_*`` hold them by theme, ``kit`` is what their code is given inside the
sandbox, ``decoys`` is the prey, ``world`` runs them in a process of its own, ``test_attacks`` judges.
"""
