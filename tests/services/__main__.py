"""`python -m tests.services --check | --install`: lists the test servers of this machine; installs the missing ones.

Both print one line for each server. Their exit status is 0 even when a server is missing, because its tests are then
skipped and counted. Under STRICT=1 (CI) the status is 1.
"""

import argparse
import sys

from tests.services.installation import InstallRefused, Missing, install, survey
from tests.services.missing_servers import describe, strict


def main(arguments: list[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own). Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.services", description=__doc__)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--check", action="store_true", help="print what was found")
    wanted.add_argument(
        "--install", action="store_true", help="install what is missing, then print what was found"
    )
    chosen = parser.parse_args(arguments)

    if chosen.install:
        try:
            install(result.service for result in survey() if isinstance(result, Missing))
        except InstallRefused as refusal:
            print(f"error: test servers could not be installed / {refusal}", file=sys.stderr)
    results = survey()
    for result in results:
        print(describe(result))
    return 1 if strict() and any(isinstance(result, Missing) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
