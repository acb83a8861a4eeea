"""`foreword ingest COLLECTION PATHS`: files into a collection, made on first use."""

import json
import sys
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from app.commands.attribute_values import attributes_of
from app.commands.document_files import check_names, find_files
from app.commands.gateway import Told, gateway, gateway_options
from app.commands.ingest_work import (
    Labels,
    Outcome,
    Tally,
    add_files,
    collection_id,
    sync_files,
    take_out_others,
)
from cache.report_numbers import plural

_WORDS = {"added": "ingested ", "replaced": "replaced ", "unchanged": "unchanged"}


@click.command()
@click.argument("collection", type=Told())
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="KEY=VALUE",
    help="what questions can be filtered by; as often as needed",
)
@click.option(
    "--access",
    multiple=True,
    metavar="GROUP",
    help="only requests that name one of these groups find the files; as often as needed",
)
@click.option(
    "--sync",
    is_flag=True,
    help="make the collection's files equal to these, by name: changed ones replace the old",
)
@click.option(
    "--remove-missing",
    is_flag=True,
    help="with --sync: take files of other names out of the collection",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def ingest(
    collection: str,
    paths: tuple[str, ...],
    attributes: tuple[str, ...],
    access: tuple[str, ...],
    sync: bool,
    remove_missing: bool,
    output: str,
    url: str | None,
    home: Path,
) -> None:
    """Put files, the documents in folders, or what fits a pattern, into COLLECTION.

    Text, Markdown, HTML, PDF, DOCX, CSV, JSON and source code. A file that is there already,
    unchanged, costs nothing; one that can't be read is reported and the rest go on. Exit 1 if any
    failed.
    """
    if remove_missing and not sync:
        raise click.UsageError("--remove-missing needs --sync")
    files = find_files(paths)
    labels = Labels(
        attributes=attributes_of(attributes) if attributes else None, access=list(access) or None
    )
    tally = Tally(removed=[])
    if sync:
        check_names(files)
    with gateway(url, home) as client, _Bar(len(files), quiet=output == "json") as bar:
        store = collection_id(client, collection)
        if sync:
            outcomes = list(sync_files(client, store, files, labels, bar, tally))
            if remove_missing:
                take_out_others(client, store, files, tally)
        else:
            outcomes = list(add_files(client, store, files, labels, bar))
    if output == "json":
        _print_json(collection, outcomes, tally if sync else None)
    else:
        _print_text(collection, outcomes, tally if sync else None)
    sys.exit(1 if any(outcome.has_failed for outcome in outcomes) else 0)


class _Bar:
    """Files and passages that are done, on stderr; a line for each file stays."""

    def __init__(self, files: int, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("files"),
            TextColumn("{task.fields[passages]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._progress.add_task("ingesting", total=files, passages="")
        self._told: set[str] = set()

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def working(self, name: str, done_chunks: int, total_chunks: int | None) -> None:
        """A file is being worked on."""
        passages = "" if total_chunks is None else f"{done_chunks} of {total_chunks} passages"
        self._progress.update(self._task, description=name[-40:], passages=passages)

    def waits(self, name: str, problem: str) -> None:
        """A file has to wait for something; each reason is told once."""
        if problem not in self._told and not self._quiet:
            self._console.print(Text(f"  {_shown(name)} and those behind it wait: {problem}"))
        self._told.add(problem)

    def ended(self, outcome: Outcome) -> None:
        """A file is done."""
        self._progress.advance(self._task)
        if not self._quiet:
            self._console.print(Text(_line(outcome)))


def _line(outcome: Outcome) -> str:
    if outcome.has_failed:
        return f"  failed     {_shown(outcome.file.path)}"  # the reason stands in the table
    passages = "" if outcome.what == "unchanged" and not outcome.chunks else _passages(outcome)
    return f"  {_WORDS[outcome.what]}  {_shown(outcome.file.path)}{passages}"


def _passages(outcome: Outcome) -> str:
    return f" ({plural(outcome.chunks or 0, 'passage')})"


def _shown(name: object) -> str:
    """A name as it can stand in a terminal: it may hold line feeds and escape sequences."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(name))


def _print_json(collection: str, outcomes: list[Outcome], tally: Tally | None) -> None:
    result = {
        "schema_version": 1,
        "collection": collection,
        "files": [outcome.json() for outcome in outcomes],
    }
    if tally is not None:
        result["sync"] = {
            "removed": tally.removed,
            "embedded_chunks": tally.embedded_chunks,
            "reused_chunks": tally.reused_chunks,
        }
    click.echo(json.dumps(result, ensure_ascii=False))


def _print_text(collection: str, outcomes: list[Outcome], tally: Tally | None) -> None:
    failed = [outcome for outcome in outcomes if outcome.has_failed]
    tail = f", {len(failed)} failed" if failed else ""
    click.echo(f"{collection}: {_summary(outcomes, tally)}{tail}")
    if failed:
        names = [_shown(outcome.file.path) for outcome in failed]
        width = max(len(name) for name in names)
        for name, outcome in zip(names, failed, strict=True):
            click.echo(f"  {name.ljust(width)}  {outcome.problem}")


def _summary(outcomes: list[Outcome], tally: Tally | None) -> str:
    done = [outcome for outcome in outcomes if not outcome.has_failed]
    if tally is None:
        chunks = sum(outcome.chunks or 0 for outcome in done)
        return f"{plural(len(done), 'document')} in {plural(chunks, 'passage')}"
    counts = Counter(outcome.what for outcome in done)
    parts = [f"{counts[what]} {what}" for what in ("added", "replaced", "unchanged")]
    parts.append(f"{len(tally.removed)} removed")
    embedded = plural(tally.embedded_chunks, "passage")
    passages = f"{embedded} embedded, {tally.reused_chunks} known before"
    return f"{', '.join(parts)}; {passages}"
