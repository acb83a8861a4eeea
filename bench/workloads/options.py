"""What all kinds of workloads are asked for alike, and how one is written."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from bench.errors import BenchError, WorkloadError
from bench.workloads.file import WorkloadRequest, make_workload, write_workload
from bench.workloads.trace import lay_arrivals
from bench.workloads.vocabulary import Vocabulary, vocabulary_of

_F = TypeVar("_F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options that every kind has."""

    seed: int
    tokenizer: Path | None
    arrivals: Path | None
    output: Path
    name: str | None
    form: str


def common_options(command: _F) -> _F:
    """Put them onto a command; they come as its first argument, a `Common`."""

    def wrapped(
        seed: int,
        tokenizer: Path | None,
        arrivals: Path | None,
        output: Path,
        name: str | None,
        output_format: str,
        **asked: Any,
    ) -> None:
        common = Common(
            seed=seed,
            tokenizer=tokenizer,
            arrivals=arrivals,
            output=output,
            name=name,
            form=output_format,
        )
        try:
            command(common, **asked)
        except BenchError as error:
            click.echo(f"foreword bench workload: {error}", err=True)
            raise click.exceptions.Exit(2) from error

    wrapped.__doc__ = command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    made: Any = wrapped
    for option in _OPTIONS:
        made = option(made)
    return made  # type: ignore[no-any-return]


_OPTIONS = (
    click.option(
        "--format", "output_format", type=click.Choice(["text", "json"]), default="text",
        show_default=True, help="what is told on stdout",
    ),
    click.option("--name", help="what the workload is called  [default: the kind]"),
    click.option(
        "--arrivals", type=FILE,
        help="a trace file (Azure, Mooncake, …) whose times the requests get",
    ),
    click.option(
        "--tokenizer", type=click.Path(path_type=Path, exists=True),
        help="tokenizer.json, or its folder: lengths are in its tokens; else in words",
    ),
    click.option("--seed", type=int, default=0, show_default=True),
    click.option(
        "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True,
        help="the workload file",
    ),
)  # fmt: skip


def write(
    common: Common,
    kind: str,
    requests: Callable[[Vocabulary], Iterable[WorkloadRequest]],
    parameters: Mapping[str, Any],
) -> None:
    """Make the workload, write its file, say what it is.

    Raises:
        BenchError: it can't be made or written.
    """
    vocabulary = vocabulary_of(common.tokenizer)
    made = requests(vocabulary)
    told = {"workload": kind, **parameters, **vocabulary.described()}
    if common.arrivals is not None:
        made = lay_arrivals(made, arrival_times(common.arrivals))
        told["arrivals"] = input_name(common.arrivals)
    workload = make_workload(common.name or kind, made, seed=common.seed, parameters=told)
    write_workload(common.output, workload)
    click.echo(f"wrote {common.output}", err=True)
    header = workload.header
    if common.form == "json":
        facts = {"schema_version": 1, "name": header.name, "requests": header.requests}
        click.echo(orjson.dumps(facts | {"sha256": header.sha256}).decode())
    else:
        click.echo(f"{header.name}: {header.requests} requests, sha256 {header.sha256}")


def arrival_times(path: Path) -> Iterable[float | None]:
    """When the requests of a trace came."""
    from bench.traces import open_trace

    return (request.at_s for request in open_trace(path))


def input_name(path: Path) -> dict[str, str]:
    """A file that went into a workload: its name and digest, never where it lay.

    Raises:
        WorkloadError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            return {"file": path.name, "sha256": file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise WorkloadError(str(path), f"can't be read: {error.strerror}") from error
