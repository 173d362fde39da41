"""``make fuzz``: let atheris look for bytes that make the frame decoder break a promise of ``target``.

    python -m tests.fuzz.frames --seconds 60

atheris (a libFuzzer for Python) ships for x86-64 only; elsewhere, or with ``--random``, the same promises
are tried on mutations by chance. What was found interesting is kept in ``--corpus`` for the next run. An
input that breaks a promise is stored, and given as an argument it is tried alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz.target import LIMIT, check, mutations, seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz the decoder of a child's frames.")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: 60)")
    parser.add_argument("--random", action="store_true", help="mutations by chance, without atheris")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (default: 1)")
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz/frames"), help="folder that is kept")
    parser.add_argument("input", nargs="?", type=Path, help="try this one input and nothing else")
    chosen = parser.parse_args()
    if chosen.input is not None:
        return _try(chosen.input.read_bytes(), chosen.input.parent)
    chosen.corpus.mkdir(parents=True, exist_ok=True)
    if not chosen.random:
        try:
            import atheris  # pyright: ignore[reportMissingImports]
        except ImportError:
            sys.stderr.write(
                "atheris is not installed (it ships for x86-64 only): mutations by chance instead\n"
            )
        else:
            return _guided(atheris, chosen.corpus, chosen.seconds, chosen.seed)
    return _by_chance(chosen.corpus, chosen.seconds, chosen.seed)


def _by_chance(corpus: Path, seconds: int, seed: int) -> int:
    deadline = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < deadline:
        for data in mutations(seed, 1000):
            tried += 1
            if (status := _try(data, corpus)) != 0:
                return status
        seed += 1
    print(f"{tried} inputs: no promise of the frame decoder was broken")
    return 0


def _guided(atheris, corpus: Path, seconds: int, seed: int) -> int:
    """Run libFuzzer in a child, because it ends its process in its own way."""
    with tempfile.TemporaryDirectory(prefix="functory-fuzz-") as folder:
        for data in seeds():
            Path(folder, hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        child = os.fork()
        if child == 0:
            options = [
                f"-max_total_time={seconds}",
                f"-max_len={2 * LIMIT}",
                f"-seed={seed}",
                "-timeout=10",
                "-rss_limit_mb=2048",
                "-verbosity=0",
                "-print_final_stats=1",
                f"-artifact_prefix={corpus}/crash-",
            ]
            # Coverage of the decoder's own branches, and of those that tell one promise from another.
            import functory.workers.sandbox.protocol.frames
            import tests.fuzz.target

            for code in (
                functory.workers.sandbox.protocol.frames.decode_guest,
                functory.workers.sandbox.protocol.frames.check_json,
                functory.workers.sandbox.protocol.frames.FrameBuffer.pop,
                tests.fuzz.target.assert_json,
            ):
                atheris.instrument_func(code)
            atheris.Setup([sys.argv[0], *options, str(corpus), folder], lambda data: _promise(data, corpus))
            atheris.Fuzz()
            os._exit(0)
        _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.stderr.write("the fuzzer found what breaks a promise, or ran into a limit: see above\n")
        return 1
    print("no promise of the frame decoder was broken")
    return 0


def _promise(data: bytes, corpus: Path) -> None:
    if _try(data, corpus) != 0:
        # Flushed by hand: libFuzzer's own end would lose it.
        sys.stderr.flush()
        os._exit(77)


def _try(data: bytes, folder: Path) -> int:
    """Return 0 when all promises hold for ``data``; else 1, after storing the input and printing how to repeat it."""
    try:
        check(data)
    except Exception:
        file = folder / f"broken-{hashlib.sha256(data).hexdigest()[:16]}"
        file.write_bytes(data)
        sys.stderr.write(
            f"\n{traceback.format_exc()}\n"
            f"error: {len(data)} bytes break a promise of the frame decoder (tests/fuzz/target.py lists them)\n"
            f"the input is in {file}\n"
            f"try: make fuzz ARGS={file}\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
