"""Watches of files: what changes below a folder becomes ``file.created``, ``modified``, ``deleted`` and ``moved``.

:mod:`kind` is the plug-in and its configuration. A watch hears of paths (``notices``, from the kernel) and looks for
them itself (``scan``, against what it knows); a path of which something was heard waits until it rests (``settling``);
then it is read (``look``), compared with what is known (``decide``) and told (``telling``). ``watching`` turns the
wheel. What the kernel says is only a hint where to look: an event is told because the content differs from what
the database knows, so that lost, doubled and late notices make no difference.
"""

from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.plugin import FileSource

__all__ = ["FileWatchConfig", "FileSource"]
