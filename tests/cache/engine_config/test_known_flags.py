"""The tables of flags, and that they are those of the installed parsers."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
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


FILES = {"sglang": "sglang-0.5.23.txt", "lmcache": "lmcache-server-0.5.6.txt"}


@pytest.fixture(scope="module")
def dumps(engine_python: Path) -> Iterator[Mapping[str, "subprocess.Popen[str]"]]:
    """Both import most of their program, so they do it at the same time."""
    env = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "LMCACHE_TRACK_USAGE": "false"}
    with contextlib.ExitStack() as running:
        started = {}
        for program in FILES:
            command = [str(engine_python), "-c", DUMP, program]
            process = subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            started[program] = running.enter_context(process)
            running.callback(process.kill)
        yield started


@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", FILES)
def test_the_tables_are_what_the_installed_parsers_have(
    program: str, dumps: Mapping[str, "subprocess.Popen[str]"]
) -> None:
    output, problem = dumps[program].communicate(timeout=280)
    assert dumps[program].returncode == 0, problem[-3000:]
    written = Path(known_flags.__file__).parent / "flags" / FILES[program]
    lines = [line for line in output.splitlines() if " --" in line]
    assert lines == written.read_text("utf-8").splitlines()
