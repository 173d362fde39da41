"""A client of a Functory server: the verbs of :class:`functory.client.functory.Functory` over its HTTP API.

It needs no database and loads no part of the engine that does. :mod:`functory.remote.client` is its door,
:mod:`functory.remote.rows` and :mod:`functory.remote.operations` are made from the description of the API.
"""
