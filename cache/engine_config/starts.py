"""Which of a command's words start one of our programs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from cache.engine_config.located import LocatedCommand, LocatedWord, joined, text_commands
from cache.engine_config.view import Program, Written

_ENGINE_MODULES = frozenset({"sglang.launch_server", "foreword_guard.engine"})
_TIER_MODULES = frozenset(
    {"foreword_guard.tier", "lmcache.v1.multiprocess.http_server", "lmcache.v1.multiprocess.server"}
)
_REDIS_PROGRAMS = frozenset({"redis-server", "valkey-server", "keydb-server"})
_SHELLS = frozenset({"ash", "bash", "dash", "sh", "zsh"})
_SCRIPT_FLAG = re.compile(r"-[a-z]*c")
# Commands that start what their last words name; others (`pkill -f redis-server`) only name it.
_STARTERS = frozenset(
    {
        "!", "(", "{", "conda", "do", "docker", "dumb-init", "else", "env", "gosu", "if", "ionice",
        "mamba", "nerdctl", "nice", "numactl", "nvidia-docker", "pipx", "podman", "poetry",
        "setsid", "srun", "stdbuf", "sudo", "su-exec", "taskset", "then", "time", "timeout",
        "tini", "torchrun", "uv", "uvx",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A program that a command starts; its arguments begin at `first`."""

    program: Program
    at: Written
    first: int
    guarded: bool


def find_start(words: Sequence[LocatedWord], *, in_container: bool = False) -> Start | None:
    """The program that a command starts, if it is one of ours.

    Args:
        in_container: the words are a container's, which starts nothing else.
    """
    if not in_container and not _may_start(words):
        return None
    for index, word in enumerate(words):
        following = words[index + 1].text if index + 1 < len(words) else ""
        found = _program(word.text, following)
        if found is not None:
            program, length = found
            return Start(
                program=program,
                at=joined(word.at, words[index + length - 1].at),
                first=index + length,
                guarded=word.text == "foreword_guard.engine",
            )
    return None


def opened(command: LocatedCommand) -> list[LocatedCommand]:
    """The commands in `sh -c TEXT`, with the words in front of the shell; or the command itself."""
    words = command.words
    for index, word in enumerate(words[:-2]):
        if PurePosixPath(word.text).name not in _SHELLS:
            continue
        flags = [i for i in range(index + 1, len(words)) if _SCRIPT_FLAG.fullmatch(words[i].text)]
        if flags and flags[0] + 1 < len(words):
            script = words[flags[0] + 1]
            return [
                replace(
                    inner,
                    words=(*words[:index], *inner.words),
                    variables={**command.variables, **inner.variables},
                )
                for inner in text_commands(script.text, script.at)
            ]
    return [command]


def _may_start(words: Sequence[LocatedWord]) -> bool:
    if not words:
        return False
    first = words[0].text
    base = PurePosixPath(first).name
    following = words[1].text if len(words) > 1 else ""
    return (
        base in _STARTERS
        or "python" in base
        or first.startswith(("$", "-m"))
        or first.endswith("{")
        or _program(first, following) is not None
    )


def _program(word: str, following: str) -> tuple[Program, int] | None:
    """The program that a word, and perhaps the next, names, and how many words name it."""
    if word in _ENGINE_MODULES:
        return Program.ENGINE, 1
    if word in _TIER_MODULES:
        return Program.TIER, 1
    base = PurePosixPath(word).name
    if base == "launch_server.py":
        return Program.ENGINE, 1
    if base == "sglang" and following == "serve":
        return Program.ENGINE, 2
    if base == "lmcache" and following == "server":
        return Program.TIER, 2
    if base in _REDIS_PROGRAMS:
        return Program.REDIS, 1
    return None
