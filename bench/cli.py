"""`foreword bench`: a group whose commands are imported only when they are used."""

from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple

import click


class _Place(NamedTuple):
    """Where a command is, and what the list says of it."""

    module: str
    name: str
    help: str


_COMMANDS = MappingProxyType(
    {
        "compare": _Place(
            "bench.compare.command", "compare", "Two arms, paired: what did the change bring?"
        ),
        "doctor": _Place(
            "bench.doctor.command", "doctor", "Is this machine quiet enough to measure on?"
        ),
        "replay": _Place(
            "bench.replay.command", "replay", "Hit rates of a trace by policy, without an engine."
        ),
        "report": _Place("bench.pages.command", "report", "Pages and plots of runs, made anew."),
        "run": _Place("bench.load.command", "run", "Send a workload to any endpoint."),
        "workload": _Place(
            "bench.workloads.command", "workload", "Make a list of requests: seeded, hashed."
        ),
    }
)


class LazyCommands(click.Group):
    """Knows its commands by name, so that one never pays for another's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        command = getattr(import_module(place.module), place.name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list, without importing what is in it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].help) for name in sorted(_COMMANDS)])


@click.group(cls=LazyCommands)
def bench() -> None:
    """Workloads, load, trace replay and comparisons: one harness for this and for its peers."""
