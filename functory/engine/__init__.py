"""The rows and their rules: what is stored, and every state change that is allowed.

All SQL of the project lives here. Nothing in this package imports ``functory``, ``workers``,
``triggers`` or ``packs``; what those must supply (a pattern matcher, a child process that
evaluates type hints) comes in through arguments.
"""
