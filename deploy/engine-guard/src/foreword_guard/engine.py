"""`python -m foreword_guard.engine ARGS…`: the version check, then SGLang in this process.

Its metrics get a folder in shared memory (`metric_files.py`).

Other Foreword plugins that depend on a release take part through the entry point group
`foreword.engine_checks`: a function without arguments that returns None, or one sentence saying
why it refuses.
"""

import os
import runpy
import sys
from importlib.metadata import entry_points

from foreword_guard.errors import EXIT_REFUSED, GuardError
from foreword_guard.metric_files import VARIABLE, choose_folder
from foreword_guard.settings import GuardSettings
from foreword_guard.versions import needed_by_engine, refuse, require


def main() -> None:
    """Check, then become `sglang.launch_server` with the same arguments."""
    try:
        require(*needed_by_engine(sys.argv[1:]))
        GuardSettings.from_environment(os.environ)
    except GuardError as error:
        raise refuse(error) from error
    for check in entry_points(group="foreword.engine_checks"):
        refusal = check.load()()
        if refusal is not None:
            sys.stderr.write(f"{check.name}: {refusal}\n")
            raise SystemExit(EXIT_REFUSED)
    _place_metrics()
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)


def _place_metrics() -> None:
    try:
        folder = choose_folder(os.environ)
    except GuardError as error:
        raise refuse(error) from error
    if folder is not None:
        os.environ[VARIABLE] = str(folder)


if __name__ == "__main__":
    main()
