"""Packs of StackStorm, read as functions and triggers.

:func:`read_pack` looks at the folder of a pack and says, file by file, what it becomes here or why it cannot come
along; ``functory pack import stackstorm`` saves that. Nothing of the pack is run: YAML is read as plain data,
Python is only parsed, and no file outside of the folder is opened.
"""

from functory.packs.stackstorm.pack import Pack, read_pack
from functory.packs.stackstorm.report import Entry, LeftOut
from functory.packs.stackstorm.timer import check_timer, cron_line

__all__ = ["read_pack", "Pack", "Entry", "LeftOut", "check_timer", "cron_line"]
