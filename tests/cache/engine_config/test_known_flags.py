"""The tables of flags, and that they are those of the installed parsers."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from cache.engine_config import known_flags
from cache.engine_config.known_flags import Takes, sglang_flags, tier_flags

DUMP = """
import argparse, sys
parser = argparse.ArgumentParser(add_help=False)
if sys.argv[1] == "sglang":
    from sglang.srt.server_args import ServerArgs
    ServerArgs.add_cli_args(parser)
else:
    from lmcache.cli.commands.server import ServerCommand
    ServerCommand().add_arguments(parser)
def takes(action):
    name = type(action).__name__
    if name == "BooleanOptionalAction":
        return "switch"
    if action.nargs == 0:
        return "flag"
    if name == "_AppendAction":
        return "each"
    return {"*": "many", "+": "many", "?": "maybe"}.get(action.nargs, "one")
rows = [
    " ".join([a.dest, takes(a), *(s for s in a.option_strings if s.startswith("--"))])
    for a in parser._actions
    if a.option_strings
]
print("\\n".join(sorted(rows)))
"""


def test_a_flag_is_found_by_any_spelling_and_by_its_unmistakable_beginning() -> None:
    flags = sglang_flags()
    short, long = flags.find("--tp"), flags.find("--tensor-parallel-size")
    assert short is not None
    assert short == long
    assert short.takes is Takes.ONE
    begun = flags.find("--enable-cache-rep")
    assert begun is not None
    assert begun.name == "enable_cache_report"
    assert flags.find("--enable-") is None
    assert flags.find("--no-such-flag") is None


def test_only_a_close_spelling_is_suggested() -> None:
    assert sglang_flags().nearest("--enable-cache-repotr") == "--enable-cache-report"
    assert sglang_flags().nearest("--quantum-attention") is None
    assert tier_flags().nearest("--eviction-polcy") == "--eviction-policy"


def test_every_flag_in_lmcaches_help_is_in_the_table() -> None:
    written = (Path(__file__).parents[1] / "captured/lmcache_server_help.txt").read_text("utf-8")
    helped = set(re.findall(r"^  (--[a-z0-9-]+)", written, re.MULTILINE))
    general = {"--format", "--output"}
    assert len(helped) > 80
    assert helped - general <= set(tier_flags().by_spelling)


# Both import most of their program, which takes a minute on a busy machine.
@pytest.mark.engine
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("program", "file"),
    [("sglang", "sglang-0.5.23.txt"), ("lmcache", "lmcache-server-0.5.6.txt")],
)
def test_the_tables_are_what_the_installed_parsers_have(
    program: str, file: str, engine_python: Path
) -> None:
    env = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "LMCACHE_TRACK_USAGE": "false"}
    command = [str(engine_python), "-c", DUMP, program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=280)
    written = Path(known_flags.__file__).parent / "flags" / file
    lines = [line for line in done.stdout.splitlines() if " --" in line]
    assert lines == written.read_text("utf-8").splitlines()
