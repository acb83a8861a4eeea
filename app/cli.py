"""`foreword`: a group whose commands each package offers; one is imported only when it is used."""

from importlib.metadata import EntryPoint, entry_points

import click

from app.version import VERSION

_GROUP = "foreword.commands"


class LazyGroup(click.Group):
    """Finds commands by entry point, so that `foreword lint` never pays for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(self._entry_points())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        found = self._entry_points().get(cmd_name)
        if found is None:
            return None
        command = found.load()
        assert isinstance(command, click.Command)
        return command

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=_GROUP)}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="foreword")
def main() -> None:
    """Byte-stable prompts, measured prefix re-use, RAG or CAG, on SGLang and LMCache."""
