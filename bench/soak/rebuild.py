"""`python -m bench.soak.rebuild FILE.json`: a soak's page once more, by the rule of today."""

from pathlib import Path

import click

from bench.soak.report import rebuild


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def main(file: Path) -> None:
    """Judge the samples in FILE again and write FILE and its Markdown anew."""
    click.echo(rebuild(file))


if __name__ == "__main__":
    main()
