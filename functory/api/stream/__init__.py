"""The live stream: one reader of changes for a server process, and the clients that it sends frames to.

:mod:`topics` says what a client wants, :mod:`window` what was sent, :mod:`frames` how it is written,
:mod:`subscriber` holds what waits for one client, and :mod:`feed` is the reader.
"""
