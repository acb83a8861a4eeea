"""Which program a command starts, and what its arguments set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cache.engine_config.docker_run import run_container, run_environment
from cache.engine_config.known_flags import Flag, FlagTable, Takes, sglang_flags, tier_flags
from cache.engine_config.located import LocatedCommand, LocatedWord, joined
from cache.engine_config.starts import find_start
from cache.engine_config.view import Process, Program, Setting

_TABLES = {Program.ENGINE: sglang_flags, Program.TIER: tier_flags}
# What each program can't start without: arguments that say it are all there are.
_NEEDED = {Program.ENGINE: ("model_path",), Program.TIER: ("l1_size_gb", "l1_manager")}


def command_process(command: LocatedCommand, *, in_container: bool = False) -> Process | None:
    """The process of a command, or of arguments alone; None if it is nothing of ours."""
    start = find_start(command.words, in_container=in_container)
    if start is None:
        return arguments_process(command.words)
    before, arguments = command.words[: start.first], command.words[start.first :]
    container = run_container(before)
    return Process(
        program=start.program,
        at=start.at,
        settings=tuple(settings(start.program, arguments)),
        environment={**environment(command.variables), **run_environment(before)},
        whole=not _has_more_elsewhere(start.program, arguments),
        guarded=start.guarded or None,
        container=container,
        on_host=container is None,
    )


def arguments_process(words: Sequence[LocatedWord], hint: Program | None = None) -> Process | None:
    """What arguments without a program set; `hint` says whose they are, else their names do."""
    if not words or not words[0].text.startswith("--"):
        return None
    program = hint or _likely(words)
    if program is None:
        return None
    read = tuple(settings(program, words))
    named = {setting.name for setting in read}
    whole = bool(named.intersection(_NEEDED.get(program, ()))) and "config" not in named
    return Process(program=program, at=words[0].at, settings=read, whole=whole)


def environment(variables: Mapping[str, LocatedWord]) -> dict[str, Setting]:
    """Variables as settings."""
    return {
        name: Setting(name=name, spelling=name, values=(word.text,), at=word.at)
        for name, word in variables.items()
    }


def settings(program: Program, words: Sequence[LocatedWord]) -> Iterator[Setting]:
    """The settings that a program's arguments make."""
    for option in _options(program, words):
        yield _setting(option)


def flag_table(program: Program) -> FlagTable | None:
    """The flags of a program whose parser is known."""
    return _TABLES[program]() if program in _TABLES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """A flag's word with the words that are its values; `inline` is what stood behind `=`."""

    flag: LocatedWord
    known: Flag | None
    values: tuple[LocatedWord, ...]
    inline: str | None

    @property
    def spelling(self) -> str:
        return self.flag.text.partition("=")[0]


def _options(program: Program, words: Sequence[LocatedWord]) -> Iterator[_Option]:
    table = flag_table(program)
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.text.startswith("--"):
            spelling, equals, value = word.text.partition("=")
            known = table.find(spelling) if table else None
            taken = () if equals else _taken(known, words[index:])
            inline = value if equals else None
            yield _Option(flag=word, known=known, values=taken, inline=inline)
            index += len(taken)


def _setting(option: _Option) -> Setting:
    spelling, flag = option.spelling, option.known
    values = tuple(word.text for word in option.values)
    if option.inline is not None:
        values = (option.inline,)
    at = joined(option.flag.at, option.values[-1].at) if option.values else option.flag.at
    if flag is None:
        name = spelling.removeprefix("--").replace("-", "_")
        return Setting(name=name, spelling=spelling, values=values, at=at)
    if flag.takes is Takes.SWITCH and spelling.startswith("--no-"):
        values = ("false",)
    return Setting(name=flag.name, spelling=spelling, values=values, at=at)


def _taken(flag: Flag | None, following: Sequence[LocatedWord]) -> tuple[LocatedWord, ...]:
    """The words behind a flag that are its values."""
    if flag is not None and flag.takes in (Takes.NOTHING, Takes.SWITCH):
        return ()
    if flag is not None and flag.takes in (Takes.ONE, Takes.ONE_EACH_TIME):
        return tuple(following[:1])
    taken: list[LocatedWord] = []
    for word in following:
        if word.text.startswith("--"):
            break
        taken.append(word)
    return tuple(taken)


def _has_more_elsewhere(program: Program, arguments: Sequence[LocatedWord]) -> bool:
    """Whether there are settings that aren't seen: in a file, or in variables (`$EXTRA`)."""
    read = list(_options(program, arguments))
    used = {id(word) for option in read for word in (option.flag, *option.values)}
    loose = [word.text for word in arguments if id(word) not in used]
    if any(text.startswith("$") for text in loose):
        return True
    if program is Program.REDIS:
        return bool(loose) and loose[0] == arguments[0].text
    return any(option.spelling == "--config" for option in read)


def _likely(words: Sequence[LocatedWord]) -> Program | None:
    """Whose arguments these most likely are: which parser knows more of them."""
    spellings = [w.text.partition("=")[0] for w in words if w.text.startswith("--")]
    known = {
        program: sum(table().find(spelling) is not None for spelling in spellings)
        for program, table in _TABLES.items()
    }
    best = max(known, key=lambda program: known[program])
    return best if known[best] * 2 >= len(spellings) and known[best] else None
