"""`foreword ingest COLLECTION PATHS`: files into a collection, made on first use."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx

from app.commands.gateway import GatewayAnswerError, checked, gateway, gateway_options

_SUFFIXES = (".txt", ".text", ".md", ".markdown", ".html", ".htm", ".pdf")


@click.command()
@click.argument("collection")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def ingest(
    collection: str, paths: tuple[Path, ...], output: str, url: str | None, home: Path
) -> None:
    """Put files, or the files in folders, into COLLECTION.

    Text, Markdown, HTML and PDF. A file that is there already, unchanged, costs nothing; one that
    can't be read is reported and the rest go on. Exit 1 if any failed.
    """
    files = list(_files(paths))
    if not files:
        kinds = ", ".join(_SUFFIXES)
        raise click.UsageError(f"there are no documents in these folders (looked for {kinds})")
    with gateway(url, home) as client:
        store = _collection(client, collection)
        results = [_add(client, store, name, path, output) for name, path in files]
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, "collection": collection, "files": results}))
    else:
        _summary(collection, results)
    sys.exit(1 if any(result["status"] != "completed" for result in results) else 0)


def _files(paths: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """(name, path) of each file, in a fixed order; folders are walked for known suffixes."""
    for path in paths:
        if path.is_dir():
            found = (p for p in path.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file())
            for file in sorted(found):
                yield file.relative_to(path).as_posix(), file
        else:
            yield path.name, path


def _collection(client: httpx.Client, name: str) -> str:
    """The id of the collection of that name; made where there is none."""
    found = checked(client.get("/v1/vector_stores", params={"name": name})).json()["data"]
    if found:
        return str(found[0]["id"])
    return str(checked(client.post("/v1/vector_stores", json={"name": name})).json()["id"])


def _add(client: httpx.Client, store: str, name: str, path: Path, output: str) -> dict[str, Any]:
    result = _attempt(client, store, name, path)
    if output == "text":
        click.echo(_line(result), err=True)
    return result


def _attempt(client: httpx.Client, store: str, name: str, path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"can't be read: {error.strerror}"
        return {"file": str(path), "status": "failed", "problem": problem}
    try:
        uploaded = checked(
            client.post("/v1/files", data={"purpose": "assistants"}, files={"file": (name, data)})
        ).json()
        attached = checked(
            client.post(f"/v1/vector_stores/{store}/files", json={"file_id": uploaded["id"]})
        ).json()
    except GatewayAnswerError as error:
        return {"file": str(path), "status": "failed", "problem": error.message}
    last_error = attached["last_error"]
    return {
        "file": str(path),
        "id": attached["id"],
        "status": attached["status"],
        "problem": last_error["message"] if last_error else None,
        "chunks": attached["foreword"]["chunks"],
        "unchanged": attached["foreword"]["unchanged"],
    }


def _line(result: dict[str, Any]) -> str:
    if result["status"] != "completed":
        return f"  failed     {result['file']}: {result['problem']}"
    word = "unchanged" if result["unchanged"] else "ingested "
    return f"  {word}  {result['file']} ({result['chunks']} passages)"


def _summary(collection: str, results: list[dict[str, Any]]) -> None:
    done = [result for result in results if result["status"] == "completed"]
    chunks = sum(result["chunks"] for result in done)
    failed = len(results) - len(done)
    tail = f", {failed} failed" if failed else ""
    click.echo(f"{collection}: {len(done)} documents in {chunks} passages{tail}")
