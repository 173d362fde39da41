"""A server as the commands see it: the names and rows of :class:`functory.client.functory.Functory`, over the API.

A command asks :func:`functory.cli.session.engine` for an engine and does not know which of the two it got.
"""
