"""The names of half files that a watch ignores: each as its program makes it, with any name of the whole file."""

import re
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functory.triggers.sources.files.glob_patterns import GlobFilter
from functory.triggers.sources.files.temporary_names import DEFAULT_IGNORE, TEMPORARY_NAMES

IGNORED = GlobFilter(["*"], DEFAULT_IGNORE)
ALPHANUMERIC = string.ascii_letters + string.digits

# Program: how it names a file. {N} is the whole name, {x6} six of A-Z, a-z and 0-9, {d4} digits, {h8} hexadecimal ones.
SCHEMES = {
    "Functory": [".functory/{N}"],
    "Python": ["__pycache__/{N}"],
    "Git": [".git/{N}", ".git/objects/{h2}/{N}"],
    "Mercurial": [".hg/{N}"],
    "Subversion": [".svn/{N}"],
    "rsync": [".{N}.{x6}"],
    "rsync --delay-updates": [".~tmp~/{N}"],
    "rsync --partial-dir": [".rsync-partial/{N}"],
    "rsync --temp-dir": [".rsync-tmp/{N}"],
    "atomic write": ["{N}.tmp", ".{N}.tmp", "{N}.temp", "{N}.tmp.{d4}.{d3}", ".tmp-{N}"],
    "Ansible": [".ansible_tmp{x8}{N}"],
    "dpkg": ["{N}.dpkg-new", "{N}.dpkg-tmp"],
    "Vim": [".{N}.swp", ".{N}.swo", ".{N}.swx", ".{N}.swpx", ".{N}.un~", "{N}~", "4913"],
    "nano": [".{N}.swp", "{N}~"],
    "Emacs": ["#{N}#", ".#{N}", "{N}~", "{N}.~{d1}~"],
    "gedit": [".goutputstream-{x6}", "{N}~"],
    "Kate": [".{N}.kate-swp", "{N}~"],
    "JetBrains": ["{N}___jb_tmp___", "{N}___jb_old___"],
    "Visual Studio Code": ["{N}.vsctmp"],
    "LibreOffice": [".~lock.{N}#", "lu{d4}{x4}.tmp"],
    "WPS Office": [".~{N}"],
    "Word": ["~${N}", "~WRD{d4}.tmp", "~WRL{d4}.tmp"],
    "Excel": ["~${N}", "{h8}.tmp"],
    "PowerPoint": ["~${N}", "ppt{h4}.tmp"],
    "Firefox": ["{N}.part", "{x8}.{N}.part"],
    "Chrome": ["{N}.crdownload", "Unconfirmed {d6}.crdownload", ".com.google.Chrome.{x6}"],
    "Chromium": ["{N}.crdownload", ".org.chromium.Chromium.{x6}"],
    "Safari": ["{N}.download", "{N}.download/{N}", "{N}.download/Info.plist"],
    "Edge": ["{N}.crdownload", "{N}.partial"],
    "Opera": ["{N}.opdownload"],
    "KDE": ["{N}.part"],
    "rclone": ["{N}.{h8}.partial"],
    "aria2": ["{N}.aria2"],
    "BitTorrent": ["{N}.!qB", "{N}.!ut", "{N}.bc!", "{N}.part"],
    "yt-dlp": ["{N}.part", "{N}.part-Frag{d2}", "{N}.ytdl", "{N}.temp"],
    "gsutil": ["{N}_.gstmp"],
    "AzCopy": [".azDownload-{h8}-{h4}-{N}"],
    "WinSCP": ["{N}.filepart"],
    "Cyberduck": ["{N}.duckpart"],
    "ProFTPD, lftp": [".in.{N}", ".in.{N}."],
    "Pure-FTPd": [".pureftpd-upload.{h8}.{d2}.{h4}.{h8}"],
    "NFS": [".nfs{h24}", ".nfs{d7}"],
    "SMB": [".smb{h4}", ".__smb{h4}"],
    "AFS": [".__afs{h4}"],
    "FUSE": [".fuse_hidden{h16}", ".fuse_hidden{d4}"],
    "Syncthing": [".syncthing.{N}.tmp", "~syncthing~{N}.tmp", ".stversions/{N}", ".stfolder/{N}"],
    "Dropbox": [".dropbox.cache/{N}", ".dropbox", ".dropbox.attr"],
    "Nextcloud": [".{N}.~{h4}", "._sync_{h8}.db", ".sync_{h8}.db-wal", ".nextcloudsync.log"],
    "ownCloud": [".{N}.~{h4}", ".owncloudsync.log.{d1}"],
    "Google Drive": [".tmp.drivedownload/{N}", ".tmp.driveupload/{N}"],
    "Hadoop": ["{N}._COPYING_"],
    "Spark": ["_temporary/{d1}/{N}"],
    "macOS": [".DS_Store", "._{N}", "{N}.sb-{h8}-{x6}"],
    "Windows": ["Thumbs.db"],
    "trash": [".Trash-{d4}/files/{N}"],
}  # fmt: skip

_DRAWN = {"x": ALPHANUMERIC, "d": string.digits, "h": "0123456789abcdef"}
_names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=30
).filter(lambda name: name not in (".", ".."))


@st.composite
def written(draw: st.DrawFn, scheme: str) -> str:
    """A path that follows a scheme, in any folder."""

    def part(found: re.Match[str]) -> str:
        if found[0] == "{N}":
            return draw(_names)
        return draw(st.text(_DRAWN[found[1]], min_size=int(found[2]), max_size=int(found[2])))

    made = re.sub(r"\{(?:N|([xdh])(\d+))\}", part, scheme)
    if scheme == ".{N}.{x6}" and re.search(r"[a-z]{6}$", made):
        # One in two hundred of rsync's suffixes is all lower case, as ordinary names are.
        made = made[:-1] + "7"
    return draw(st.sampled_from(["", "in/", "in/deep/"])) + made


@pytest.mark.parametrize("program", SCHEMES)
@given(data=st.data())
def test_a_half_file_of_a_program_is_ignored(program, data):
    path = data.draw(written(data.draw(st.sampled_from(SCHEMES[program]))))
    assert not IGNORED.includes(path)


@given(st.from_regex(r"[a-z][a-z0-9_ -]{0,20}(\.(csv|json|txt|pdf|tar\.gz|docx|20240131))?", fullmatch=True))
@example("a.txt")
@example(".env")
@example(".app.config")
@example(".data.sqlite")
@example("tmp")
@example("part")
@example("x/git/HEAD")
@example("downloads/film.mkv")
@example("template.csv")
@example("4913.csv")
@example("log.20240131")
@example("20240131")
def test_an_ordinary_file_is_reported(path):
    assert IGNORED.includes(path)


def test_the_reference_lists_each_pattern():
    page = Path("docs/reference/files.md").read_text()
    listed = {
        pattern
        for line in page.splitlines()
        if line.startswith("|")
        for pattern in re.findall(r"`([^`]+)`", line)
    }
    rsync = {pattern for pattern in TEMPORARY_NAMES["rsync"] if "[" in pattern}
    assert set(DEFAULT_IGNORE) - rsync <= listed
