"""FW726 and FW727: flags given twice, and flags that a parser doesn't know."""

from collections.abc import Iterator

from cache.engine_config.deployment import Deployment
from cache.engine_config.found import Found, found
from cache.engine_config.known_flags import Takes
from cache.engine_config.programs import flag_table
from cache.engine_config.view import Process, Program, Setting

_MANY_IN_REDIS = frozenset({"client_output_buffer_limit", "include", "loadmodule", "save", "user"})


def spelling_findings(deployment: Deployment) -> Found:
    """What a parser overrides or refuses."""
    for process in deployment.processes:
        yield from _twice(process)
        yield from _unknown(process)


def _twice(process: Process) -> Found:
    for given in _repeated(process):
        last = given[-1]
        if len({setting.values for setting in given}) == 1 or _may_repeat(process, last):
            continue
        yield found(
            "FW726",
            f"{last.spelling} is given {len(given)} times with different values, and only the last "
            f"counts: leave this {given[0].spelling} out.",
            given[0],
        )


def _repeated(process: Process) -> Iterator[list[Setting]]:
    """The settings of each name that is given more than once."""
    if process.program is Program.OTHER or process.resolved:
        return
    for name in dict.fromkeys(setting.name for setting in process.settings):
        given = process.all(name)
        if len(given) > 1:
            yield given


def _may_repeat(process: Process, setting: Setting) -> bool:
    if process.program is Program.REDIS:
        return setting.name in _MANY_IN_REDIS
    table = flag_table(process.program)
    flag = table.find(setting.spelling) if table is not None else None
    return flag is None or flag.takes is Takes.ONE_EACH_TIME


def _unknown(process: Process) -> Found:
    table = flag_table(process.program)
    for setting in process.settings if table is not None else ():
        spelled = setting.spelling.startswith("--")
        if table is None or not spelled or table.find(setting.spelling) is not None:
            continue
        nearest = table.nearest(setting.spelling)
        if nearest is not None:
            yield found(
                "FW727",
                f"{table.program} has no {setting.spelling} and refuses to start with it; did you "
                f"mean {nearest}?",
                setting,
            )
