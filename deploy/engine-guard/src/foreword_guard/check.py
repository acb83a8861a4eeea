"""`python -m foreword_guard.check`: prints the versions found; status 0, or 3 with one sentence."""

import sys

from foreword_guard.errors import GuardError
from foreword_guard.versions import LMCACHE, SGLANG, installed_version, refuse, require


def main() -> None:
    """Print what is installed and exit 3 unless it is what the guard was made for."""
    for package, _ in (SGLANG, LMCACHE):
        sys.stdout.write(f"{package} {installed_version(package) or 'not installed'}\n")
    sys.stdout.flush()
    try:
        require(SGLANG, LMCACHE)
    except GuardError as error:
        raise refuse(error) from error


if __name__ == "__main__":
    main()
