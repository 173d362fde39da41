"""Agents: language models and what they cost, and the runs that ask them.

Models: :mod:`functory.engine.agents.models`. Requests to them are rows (:mod:`functory.engine.agents.calls`), which a
gateway sends (:mod:`functory.engine.agents.call_queue`). What a tree, a day, a key, an agent and a user may spend:
:mod:`functory.engine.agents.meters` and :mod:`functory.engine.agents.quotas`.
"""
