"""Containers' commands, as lists of words or as one text, and what their images run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cache.engine_config.located import LocatedCommand, LocatedWord, text_commands
from cache.engine_config.programs import arguments_process, command_process
from cache.engine_config.starts import find_start, opened
from cache.engine_config.view import Container, Process, Program, Setting, Written
from cache.engine_config.words import substitute
from cache.engine_config.yaml_nodes import YamlNode

_IMAGES = (
    (Program.REDIS, re.compile(r"(^|/)(redis|valkey|keydb)([:@/-]|$)")),
    (Program.TIER, re.compile(r"lmcache")),
    (Program.ENGINE, re.compile(r"sglang")),
)


def container_processes(
    parts: Sequence[YamlNode],
    *,
    image: str,
    at: Written,
    environment: Mapping[str, Setting],
    container: Container,
) -> list[Process]:
    """The processes that an entry point and a command (`parts`, in this order) start."""
    found = [replace(p, environment={**environment, **p.environment}) for p in _started(parts)]
    if not found:
        found = _by_image(parts, image=image, at=at, environment=environment)
    if not found:
        found = [Process(program=Program.OTHER, at=at, environment=environment, whole=False)]
    return [replace(process, container=container, on_host=False) for process in found]


def _started(parts: Sequence[YamlNode]) -> list[Process]:
    """The processes of our programs among what is started; a shell's script is looked into."""
    read = [command for part in parts for command in _commands(part)]
    if len(parts) > 1 or not all(part.text for part in parts):
        words = tuple(word for command in read for word in command.words)
        read = [LocatedCommand(words=words, variables={})]
    scripts = [inner for command in read for inner in opened(command)]
    made = [replace(script, words=_interpolated(script.words)) for script in scripts]
    found = [
        command_process(command, in_container=True)
        for command in made
        if find_start(command.words, in_container=True)
    ]
    return [process for process in found if process is not None]


def _commands(part: YamlNode) -> list[LocatedCommand]:
    if part.is_sequence:
        words = tuple(_word(item) for item in part.items)
        return [LocatedCommand(words=words, variables={})]
    return text_commands(part.text, part.at) if part.text else []


def _word(item: YamlNode) -> LocatedWord:
    return LocatedWord(text=item.text or "", at=item.at)


def _interpolated(words: Iterable[LocatedWord]) -> tuple[LocatedWord, ...]:
    """The words with the defaults of variables in their places."""
    return tuple(replace(word, text=substitute(word.text, {})) for word in words)


def _by_image(
    parts: Sequence[YamlNode], *, image: str, at: Written, environment: Mapping[str, Setting]
) -> list[Process]:
    """What an image is known to run, with the arguments that it is given."""
    hint = next((program for program, name in _IMAGES if name.search(image)), None)
    words = _interpolated(w for part in parts for each in _commands(part) for w in each.words)
    made = arguments_process(words, hint)
    if made is not None:
        return [replace(made, environment=environment)]
    if hint is Program.REDIS and not words:
        return [Process(program=hint, at=at, environment=environment)]
    return []
