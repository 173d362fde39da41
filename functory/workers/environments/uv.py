"""Runs uv without the user's environment and configuration, bounded in time, disk and output.

uv reads archives of unknown authors. So it gets no credentials but those of the index, in its environment and never
among its arguments. It has no stdin, and runs in its own process group, which is killed as a whole.
"""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr
from uv import find_uv_bin

from functory.engine.errors import Conflict, Unavailable

# A lock of the largest environment that settings allow, with a hundred hashes a package, is smaller.
ANSWER_BYTES = 67_108_864
# A stored reason keeps this much of uv's output.
MAX_REASON_CHARACTERS = 2000

# The network settings of this machine that uv gets.
_PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
# Certificate authorities: uv's own variables, then those of pip and other programs.
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_OTHER_AUTHORITIES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# The authorities of this machine, as in pip, instead of those that uv brings: the newer and the older name.
_SYSTEM_AUTHORITIES = ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS")
# Runs between this process and uv: it limits the file size and lets uv die with its parent (prctl(2),
# PR_SET_PDEATHSIG, which survives the exec). It is no function after a fork, because this process has threads.
_START = """
import ctypes, os, resource, sys
parent, size, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
sys.platform != "linux" or ctypes.CDLL(None).prctl(1, 9)
os.getppid() == int(parent) or sys.exit(1)
os.execv(command[0], command)
"""

# uv's exit status for a permanent failure (no solution, a wrong hash), and its messages about an unavailable network,
# which have the same status.
_REFUSED = 1
_PASSING = re.compile(r"error sending request|error decoding response body|timed out|status code 5\d\d")
# The end of uv's error output that is read.
_TAIL_BYTES = 65_536
_LEAST_WAIT = 0.02
_LOOK_SECONDS = 0.2
# Checks of the disk take at most this share of the time.
_LOOK_SHARE = 0.1


@dataclass(frozen=True)
class Uv:
    """Runs uv. ``index`` is the only package index; without it, uv's default. ``ca_file`` is a file of certificate
    authorities to trust; empty for those that pip trusts here."""

    cache: Path
    index: SecretStr | None = None
    ca_file: str = ""

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        seconds: float,
        file_bytes: int,
        monitor: Callable[[], None] = lambda: None,
    ) -> str:
        """Run in ``folder``, which is scratch, and return what uv wrote to stdout.

        ``monitor`` is called repeatedly and may raise. Raises :class:`Conflict` with uv's own reason, and
        :class:`Unavailable` when the network is unavailable, uv cannot start, or does not end within ``seconds``.
        """
        out, err = folder / "stdout", folder / "stderr"
        command = [sys.executable, "-I", "-S", "-c", _START, str(os.getpid()), str(file_bytes), _executable()]
        command += ["--quiet", "--no-config", "--no-progress", "--color", "never", "--no-python-downloads"]
        command += arguments
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - a fixed program with known arguments
                command,
                cwd=folder,
                env=self._environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                status = _wait(process, seconds, monitor)
            finally:
                _end(process)
        if status == 0:
            return out.read_bytes()[:ANSWER_BYTES].decode()
        reason = self.clean(_tail(err), folder)
        if status == -signal.SIGXFSZ or "File too large" in reason:
            raise TooLarge("a package holds a file that is too large", f"packages_bytes is {file_bytes}")
        message = reason or f"uv ended with status {status}"
        if "invalid peer certificate" in reason:
            # uv's hint names an option of uv.
            message = re.sub(r"\nhint: .*--(system-certs|native-tls).*", "", message)
            message += (
                "\nno authority that is known here signed it; name a file with its authority in SSL_CERT_FILE"
            )
        if status != _REFUSED or _PASSING.search(reason):
            raise Unavailable(
                "the packages cannot be installed now", message, "try it again when the index can be reached"
            )
        raise Conflict("the packages cannot be installed", message)

    def clean(self, text: str, folder: Path | None = None) -> str:
        """uv's output for storing and showing: without escapes, credentials, the index URL and local paths."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        for secret, shown in self._secrets():
            text = text.replace(secret, shown)
        text = re.sub(r"(\w+://)[^/\s@]+@", r"\1", text)
        text = re.sub(r"(\w+://[^\s?#`\"')]+)[?#][^\s`\"')]*", r"\1", text)
        if folder is not None:
            text = text.replace(f"{folder}/", "").replace(f"{self.cache}/", "cache/")
        text = "".join(c if c == "\n" or c.isprintable() else " " for c in text)
        lines = [line.rstrip().removeprefix("error: ") for line in text.strip().splitlines()]
        plain = "\n".join(line.replace("  cause: ", "", 1) for line in lines if line)
        return plain if len(plain) <= MAX_REASON_CHARACTERS else plain[: MAX_REASON_CHARACTERS - 1] + "…"

    def _environment(self, folder: Path) -> dict[str, str]:
        made = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "UV_CACHE_DIR": str(self.cache),
            "UV_KEYRING_PROVIDER": "disabled",
            # Fewer than uv's three: the author waits for the result, and can try again.
            "UV_HTTP_RETRIES": "2",
        }
        for name in _PASSED:
            for spelling in (name, name.lower()):
                if spelling in os.environ:
                    made[spelling] = os.environ[spelling]
        made |= {"SSL_CERT_FILE": self.ca_file} if self.ca_file else _authorities()
        if self.index is not None:
            made["UV_DEFAULT_INDEX"] = self.index.get_secret_value()
        return made

    def _secrets(self) -> list[tuple[str, str]]:
        """The texts to hide, the longest first, each with its replacement."""
        found: dict[str, str] = {}
        urls = [
            os.environ[s] for n in _PASSED if n.endswith("PROXY") for s in (n, n.lower()) if s in os.environ
        ]
        if self.index is not None:
            url = self.index.get_secret_value()
            urls.append(url)
            found[url.rstrip("/")] = "<package_index>"
            found[without_credentials(url).rstrip("/")] = "<package_index>"
        for url in urls:
            parts = urlsplit(url)
            # A user name can be a token.
            hidden = [
                parts.password,
                parts.username if not parts.password or len(parts.username or "") > 7 else None,
            ]
            found |= {form: "***" for text in hidden if text for form in (text, unquote(text))}
        return sorted(found.items(), key=lambda item: -len(item[0]))


def _authorities() -> dict[str, str]:
    """The variables that make uv trust what pip trusts on this machine, for example behind a proxy that opens TLS."""
    named = {name: os.environ[name] for name in _AUTHORITIES if os.environ.get(name)}
    if named:
        return named
    for name in _OTHER_AUTHORITIES:
        if place := os.environ.get(name):
            return {"SSL_CERT_DIR" if Path(place).is_dir() else "SSL_CERT_FILE": place}
    asked = {name: os.environ[name] for name in _SYSTEM_AUTHORITIES if os.environ.get(name)}
    if asked:
        return asked
    # Where a machine has none, as some small images, uv keeps its own.
    found = ssl.get_default_verify_paths()
    has_any = found.cafile or (found.capath and any(Path(found.capath).iterdir()))
    return dict.fromkeys(_SYSTEM_AUTHORITIES, "true") if has_any else {}


class TooLarge(Conflict):
    """Packages that are larger than the limit."""


def without_credentials(url: str) -> str:
    """``https://user:word@host/simple`` → ``https://host/simple``."""
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url)


def _executable() -> str:
    try:
        found = find_uv_bin()
    except FileNotFoundError as error:
        raise Unavailable("uv is not installed", str(error).split("\n")[0], "pip install uv") from None
    if not os.access(found, os.X_OK):
        raise Unavailable(
            "uv cannot be started", f"{found} is no program", "pip install --force-reinstall uv"
        )
    return found


def _wait(process: subprocess.Popen[bytes], seconds: float, monitor: Callable[[], None]) -> int:
    """Wait for the exit status; the pause between two checks grows with the time of the run."""
    began = time.monotonic()
    wait, next_look = _LEAST_WAIT, began + _LOOK_SECONDS
    while True:
        try:
            return process.wait(wait)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if now - began > seconds:
            raise Unavailable(
                "the packages cannot be installed in time",
                f"uv was still at work after {seconds:g} s",
                "try it again",
            )
        if now >= next_look:
            monitor()
            cost = time.monotonic() - now
            next_look = now + max(_LOOK_SECONDS, cost / _LOOK_SHARE)
        wait = min(wait * 1.5, _LOOK_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group: a process that uv started may outlive it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def _tail(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
        return stream.read().decode(errors="replace")


def interpreter() -> list[str]:
    """The arguments with which uv resolves and installs for this Python."""
    return ["--python", sys.executable]
