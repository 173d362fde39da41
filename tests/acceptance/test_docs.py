"""What README and docs say to type is typed here, page by page, in a terminal, and the answers are compared.

How a page is read:

- a block with a title (``python title="hello.py"``) is saved under that name in the page's folder;
- each ``$ `` line of a ``console`` block is run by bash, in the page's order, with variables and folder
  carried on; the lines below it are the answer. ``…`` stands for any text, alone on a line for any lines;
- the status must be 0, or not 0 when the answer shown begins with ``error:`` (or is a traceback);
- ``<!-- needs: postgres rabbitmq -->`` on a page gives it those servers, in ``$POSTGRES_URL`` and so on;
- ``<!-- soon -->`` right before a block: its answers may take some time; commands are repeated until they match;
- ``<!-- run: command -->`` is what the reader does elsewhere (in a second terminal);
- ``<!-- not run: reason -->`` right before a block leaves it out; these are counted below.
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.support.console_script import shell_folder
from tests.support.patience import patient

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Reasons of pages for blocks that are shown and not run. Raise this only with a new reason.
MOST_NOT_RUN = 13
# Seconds after which a command that is repeated must have answered as shown.
PATIENCE = patient(20.0)
# The pause before a command is repeated: short at first, then longer, because each command is a process.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[a-z]+)?(?P<rest>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_RUN = re.compile(r"<!-- run: (.+) -->")
_NEEDS = re.compile(r"<!-- needs: ([a-z ]+) -->")
# The line of functory.terminal.progress, which a slow machine shows. It is erased, and the cursor is shown again.
_ERASED = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\r?\x1b\[1A\x1b\[2K", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Step:
    """A file to save (``path``) or a command to run, with what the page says about it."""

    line: int
    command: str = ""
    answer: list[str] = field(default_factory=list)
    path: str = ""
    text: str = ""
    soon: bool = False


def read(page: Path) -> tuple[list[Step], list[str], list[str]]:
    """The page's steps, the servers that it needs, and the reasons of blocks that are not run."""
    steps: list[Step] = []
    reasons: list[str] = []
    needs: list[str] = []
    lines = page.read_text().splitlines()
    number = 0
    reason = ""
    soon = False
    while number < len(lines):
        line = lines[number]
        number += 1
        if found := _NEEDS.search(line):
            needs = found[1].split()
        if found := _NOT_RUN.search(line):
            reason = found[1]
            continue
        if found := _RUN.search(line):
            steps.append(Step(number, command=found[1]))
        if "<!-- soon -->" in line:
            soon = True
            continue
        fence = _FENCE.match(line)
        if not fence:
            if line.strip():
                reason, soon = "", False
            continue
        start, indent = number, len(fence["indent"])
        while not lines[number].startswith(f"{fence['indent']}```"):
            number += 1
        block = [text[indent:] for text in lines[start:number]]
        number += 1
        if reason:
            reasons.append(reason)
        elif title := _TITLE.search(fence["rest"]):
            steps.append(Step(start, path=title[1], text="\n".join(block) + "\n"))
        elif fence["kind"] == "console":
            steps += commands(block, start, soon)
        reason, soon = "", False
    return steps, needs, reasons


def commands(block: list[str], start: int, soon: bool) -> list[Step]:
    """The commands of a block, each with its answer; a line that ends in a backslash goes on."""
    steps: list[Step] = []
    for number, line in enumerate(block, start + 1):
        if line.startswith("$ "):
            steps.append(Step(number, command=line[2:], soon=soon))
        elif steps and steps[-1].command.endswith("\\") and not steps[-1].answer:
            steps[-1].command = steps[-1].command[:-1] + " " + line.strip()
        elif steps:
            steps[-1].answer.append(line.rstrip())
    return steps


def in_terminal(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Run a command as typed into a terminal of 120 columns. Returns its status and lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = bytearray()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the terminal's last user has gone
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    text = _ESCAPES.sub("", _ERASED.sub("", said.decode(errors="replace"))).replace("\r\n", "\n")
    return process.wait(), [line.rstrip() for line in text.splitlines()]


def matches(expected: list[str], said: list[str]) -> bool:
    """Whether an answer is as shown; blanks count once, blank lines at the ends do not count."""
    parts = []
    for line in "\n".join(expected).strip("\n").split("\n"):
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            words = [r".*".join(re.escape(bit) for bit in word.split("…")) for word in line.split()]
            parts.append(r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*\n")
    return re.fullmatch("".join(parts), "\n".join(said).strip("\n") + "\n") is not None


def wrong(step: Step, status: int, said: list[str]) -> str | None:
    """What is not as the page shows it; None when all is."""
    shown = "\n".join(said)
    fails = any(line.startswith(("error:", "Traceback")) for line in step.answer)
    if (status != 0) != fails:
        return f"ended with {status} and said\n{shown}"
    if any(line.strip() for line in step.answer) and not matches(step.answer, said):
        return f"said\n{shown}\n\nthe page shows\n" + "\n".join(step.answer)
    return None


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def mark() -> Iterator[str]:
    """A word in the environment of all that a page starts; what still has it at the end is killed."""
    word = uuid.uuid4().hex
    yield word
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("PAGE_MARK") == word
        except psutil.Error:
            continue
        if ours:
            process.kill()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES, ids=names)
def test_what_a_page_says_to_type_works(
    page: Path, tmp_path: Path, mark: str, request: pytest.FixtureRequest
) -> None:
    steps, needs, _ = read(page)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    binaries = Path(sys.executable).parent
    environment |= {
        "PATH": f"{shell_folder()}:{binaries}:{environment['PATH']}",
        "NO_COLOR": "1",
        "TERM": "xterm",
        "USER": "ada",
        "PAGE_MARK": mark,
        # What a page stores for its user.
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "FUNCTORY_PORT": "0",
    }
    for server in needs:
        environment[f"{server.upper()}_URL"] = request.getfixturevalue(f"{server}_url")
    folder = tmp_path / "page"
    folder.mkdir()
    state = shlex.quote(str(tmp_path / "state"))
    keep = f'code=$?; {{ export -p; echo cd "$(printf %q "$PWD")"; }} > {state}; exit $code'
    for step in steps:
        where = f"{names(page)}:{step.line}"
        if step.path:
            # A page saves into the folder where it stands.
            here = subprocess.run(
                ["bash", "-c", f"[ ! -e {state} ] || . {state}; pwd"],
                cwd=folder,
                capture_output=True,
                text=True,
            )
            target = Path(here.stdout.strip()) / step.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(step.text)
            continue
        deadline, pause = time.monotonic() + PATIENCE, FIRST_PAUSE
        while True:
            status, said = in_terminal(
                f"[ ! -e {state} ] || . {state}\n{step.command}\n{keep}", folder, environment
            )
            fault = wrong(step, status, said)
            if fault is None or not step.soon or time.monotonic() > deadline:
                break
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        assert fault is None, f"{where}: $ {step.command}\n{fault}"


def test_the_progress_of_a_slow_command_is_no_part_of_what_it_says(tmp_path: Path) -> None:
    program = """
from functory.terminal import progress
progress.FIRST_SECONDS = 0.0
with progress.progress(4, "entries") as tell:
    for done in range(1, 5):
        tell(done)
print("imported")
"""
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"
    assert in_terminal(command, tmp_path, {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}) == (
        0,
        ["imported"],
    )


def test_only_few_blocks_are_shown_without_being_run() -> None:
    left_out = {(names(page), reason) for page in PAGES for reason in read(page)[2]}
    assert len(left_out) <= MOST_NOT_RUN, left_out


def test_every_comment_of_a_page_ends() -> None:
    for page in PAGES:
        comments = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).split("<!--")[1:]
        unclosed = [comment[:60] for comment in comments if "-->" not in comment]
        assert not unclosed, (names(page), unclosed)


def test_the_pages_have_commands_at_all() -> None:
    typed = sum(bool(step.command) for page in PAGES for step in read(page)[0])
    assert typed >= 40


def test_an_answer_that_differs_is_noticed() -> None:
    assert matches(["id …  ok", "…", "end"], ["id 01ab  ok", "more", "and more", "end"])
    assert matches(["hello   Ada"], ["", "hello Ada"])
    assert not matches(["hello Ada"], ["hello Bob"])
    assert not matches(["hello Ada"], ["hello Ada", "and more"])
    assert not matches(["one", "…", "three"], ["one", "two"])


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    remote = re.compile(
        r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+(?:stylesheet|preconnect)[^>]+href="https?:'
    )
    pages = list((tmp_path / "site").rglob("*.html"))
    assert pages
    assert [page.name for page in pages if remote.search(page.read_text())] == []
