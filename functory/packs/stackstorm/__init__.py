"""Packs of StackStorm, read as functions and triggers.

:func:`functory.packs.stackstorm.pack.read_pack` reads the folder of a pack and reports for each file what it becomes
or why it is left out; ``functory pack import stackstorm`` saves the result. The import runs nothing of the
pack: YAML is read as plain data, Python is only parsed, and no file outside the folder is opened.
:mod:`functory.packs.stackstorm.criteria` evaluates the criteria of imported rules.
"""
