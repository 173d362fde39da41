"""Names that programs give to files that are not whole yet, or that are not for others.

A watch ignores them by default. Each line is the scheme of one kind of program, as its documentation or source
describes it. A scheme that ordinary names also follow is left out (``NAME.6bfB3Bc9``, as the AWS tools write): such a
file is reported, and the rename to its whole name as well (:mod:`change_detection`).
"""

from __future__ import annotations

_ALPHANUMERIC = "[0-9A-Za-z]"

# Program, and its names.
TEMPORARY_NAMES: dict[str, tuple[str, ...]] = {
    "Functory, Python": ("**/.functory/**", "**/__pycache__/**"),
    "Git, Mercurial, Subversion": ("**/.git/**", "**/.hg/**", "**/.svn/**"),
    # .NAME.XXXXXX, alphanumeric. One character has to be a digit or a capital: .app.config is an ordinary name, and of
    # 200 random names one is all in lower case.
    "rsync": (
        *(".*." + _ALPHANUMERIC * place + "[0-9A-Z]" + _ALPHANUMERIC * (5 - place) for place in range(6)),
        "**/.~tmp~/**", "**/.rsync-partial/**", "**/.rsync-tmp/**",
    ),
    "atomic writes": ("*.tmp", "*.temp", "*.tmp.[0-9]*", ".tmp-*", ".ansible_tmp*", "*.dpkg-new", "*.dpkg-tmp"),
    "Vim, nano": (".*.sw?", ".*.swpx", "4913"),
    "Emacs": ("#*#", ".#*"),
    "backups of editors": ("*~",),
    "gedit and other GNOME programs": (".goutputstream-*",),
    "Kate": (".*.kate-swp",),
    "JetBrains": ("*___jb_tmp___", "*___jb_old___"),
    "Visual Studio Code": ("*.vsctmp",),
    "LibreOffice, WPS Office": (".~*",),
    "Microsoft Office": ("~$*",),
    "browsers": (
        "*.part", "*.crdownload", "*.download", "**/*.download/**", "*.opdownload", "*.partial",
        ".com.google.Chrome.*", ".org.chromium.Chromium.*",
    ),
    "other downloads": ("*.aria2", "*.!qB", "*.!ut", "*.bc!", "*.ytdl", "*.part-Frag*", "*_.gstmp", ".azDownload-*"),
    "SFTP and FTP": ("*.filepart", "*.duckpart", ".in.*", ".pureftpd-upload.*"),
    "NFS, SMB, AFS": (".nfs*", ".smb[0-9A-Fa-f]*", ".__smb*", ".__afs*"),
    "FUSE": (".fuse_hidden*",),
    "Syncthing": (".syncthing.*", "~syncthing~*", "**/.stfolder/**", "**/.stversions/**"),
    "Dropbox": ("**/.dropbox.cache/**", ".dropbox", ".dropbox.attr"),
    "Nextcloud, ownCloud": (".*.~*", "._sync_*", ".sync_*", ".owncloudsync.log*", ".nextcloudsync.log*"),
    "Google Drive": ("**/.tmp.drivedownload/**", "**/.tmp.driveupload/**"),
    "Hadoop, Spark": ("*._COPYING_", "**/_temporary/**"),
    "desktops": (".DS_Store", "._*", "*.sb-????????-??????", "Thumbs.db", "**/.Trash-*/**"),
}  # fmt: skip

DEFAULT_IGNORE = tuple(name for names in TEMPORARY_NAMES.values() for name in names)
