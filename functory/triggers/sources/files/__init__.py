"""File watches: changes below a folder become ``file.created``, ``modified``, ``deleted`` and ``moved``.

:mod:`plugin` is the source plug-in, :mod:`config` its configuration. The watcher gets paths from the kernel
(:mod:`inotify`) and from scans that compare the folder with the database (:mod:`rescan`). A changed path waits until
it is no longer written (:mod:`write_settling`). Then its content is read (:mod:`file_facts`), compared with the known
file (:mod:`change_detection`) and written as an event (:mod:`file_events`, :mod:`ingest`). A notification of the kernel
is only a hint where to look: an event is written because the content differs from the known content, so lost, doubled
and late notifications make no difference.
"""

from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.plugin import FileSource

__all__ = ["FileWatchConfig", "FileSource"]
