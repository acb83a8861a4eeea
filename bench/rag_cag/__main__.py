"""`python -m bench.rag_cag`: RAG, CAG and the choice between them, through a gateway."""

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from bench.errors import BenchError
from bench.rag_cag import simulated, tenants, ttft
from bench.rag_cag.compared import ways
from bench.rag_cag.results import rebuilt, result_of, write_result
from bench.rag_cag.score import is_good
from bench.rag_cag.stacks import Stack, UpOptions, running_up
from bench.rag_cag.workload import counts, events, mixed

_RESULTS = Path("bench/results")

Say = Callable[[str], None]


def _up_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options of every command that starts the real stack."""
    for option in (
        click.option("--model", default=None, help="A folder or name, as of `foreword up`."),
        click.option(
            "--cache",
            type=click.Path(path_type=Path),
            default=Path(".foreword/cache"),
            help="Where the engine's environment and models are kept.",
        ),
        click.option("--results", type=click.Path(path_type=Path), default=_RESULTS),
    ):
        command = option(command)
    return command


@click.group(context_settings={"show_default": True})
def main() -> None:
    """RAG, CAG and `auto`, measured through a gateway; results lie in bench/results."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@main.command("ttft")
@click.option("--rounds", default=9)
@click.option("--learning-rounds", default=4, help="Before those that count.")
@click.option("--documents", default=12, help="Of 1,400 characters, in each collection.")
@click.option("--pool-tokens", default=24_000)
@_up_options
def ttft_command(*, model: str | None, cache: Path, results: Path, **sizes: int) -> None:
    """TTFT of RAG and of CAG warm, cold and from the tiers, beside what was predicted."""
    pool_tokens = sizes.pop("pool_tokens")
    options = ttft.TtftOptions(**sizes)
    up = UpOptions(cache=cache, pool_tokens=pool_tokens, model=model)
    with _real(up) as stack:
        measured = _listed(ttft.measure(stack, options), "arm")
    told = {**sizes, "pool_tokens": pool_tokens}
    _write("ttft", "rag-cag-ttft", results, engine=_engine(model), options=told, measured=measured)


@main.command("tenants")
@click.option("--visits", default=3, help="Of each tenant, after the first.")
@click.option("--pool-tokens", default=8_192)
@click.option("--ram-gb", default=2.0, help="A load needs a fifth of it free.")
@_up_options
def tenants_command(
    *,
    visits: int,
    pool_tokens: int,
    ram_gb: float,
    model: str | None,
    cache: Path,
    results: Path,
) -> None:
    """Four tenants in rotation, each with a corpus about as large as the engine's memory."""
    options = tenants.TenantOptions(visits=visits)
    up = UpOptions(cache=cache, pool_tokens=pool_tokens, model=model, ram_gb=ram_gb)
    with _real(up) as stack:
        measured = _listed(tenants.measure(stack, options, pool_tokens=pool_tokens), "tenant")
    _write(
        "tenants",
        "rag-cag-tenants",
        results,
        engine=_engine(model),
        options={"visits": visits, "pool_tokens": pool_tokens, "ram_gb": ram_gb},
        measured=measured,
    )


@main.command("auto")
@click.option("--questions", default=1500)
@click.option("--seed", default=1)
@click.option("--speedup", default=8.0, help="Simulated seconds in a real one.")
@click.option("--results", type=click.Path(path_type=Path), default=_RESULTS)
def auto_command(*, questions: int, seed: int, speedup: float, results: Path) -> None:
    """`auto` against fixed modes over a long workload, before the simulated engine."""
    sites = mixed()
    happened = events(sites, questions=questions, seed=seed)
    measured = ways(simulated.each_anew(speedup), sites, happened, _say)
    measured["tokens_per_s"] = simulated.TOKENS_PER_S
    options = {"questions": questions, "seed": seed, "speedup": speedup, **counts(happened)}
    _write("auto", "rag-cag-auto", results, engine="simulated", options=options, measured=measured)


@main.command("auto-real")
@click.option("--questions", default=120)
@click.option("--seed", default=1)
@click.option("--scale", default=0.4, help="Of the number of documents.")
@click.option("--pool-tokens", default=18_000, help="Too few for one of the collections.")
@_up_options
def auto_real_command(
    *,
    questions: int,
    seed: int,
    scale: float,
    pool_tokens: int,
    model: str | None,
    cache: Path,
    results: Path,
) -> None:
    """The same, short, before the real engine without tiers; `auto` goes first."""
    sites = mixed(scale)
    happened = events(sites, questions=questions, seed=seed)
    with _real(UpOptions(cache=cache, pool_tokens=pool_tokens, model=model, tiers=False)) as stack:
        measured = ways(_emptied(stack), sites, happened, _say)
        measured["tokens_per_s"] = stack.prefill_tokens_per_s()
    options = {"questions": questions, "seed": seed, "scale": scale, "pool_tokens": pool_tokens}
    options |= counts(happened)
    _write(
        "auto",
        "rag-cag-auto-real",
        results,
        engine=_engine(model),
        options=options,
        measured=measured,
        judged=False,  # too short: what finding out costs isn't won back
    )


@main.command("all")
@click.option("--cache", type=click.Path(path_type=Path), default=Path(".foreword/cache"))
@click.option("--results", type=click.Path(path_type=Path), default=_RESULTS)
def all_command(*, cache: Path, results: Path) -> None:
    """All of these, one after the other; fails where one of them breaks its promise."""
    failed = []
    for name in ("ttft", "tenants", "auto", "auto-real"):
        where = ["--results", str(results)]
        where += ["--cache", str(cache)] if name != "auto" else []
        command = [sys.executable, "-m", "bench.rag_cag", name, *where]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        _say(f"not as it should be: {', '.join(failed)}")
        sys.exit(1)


@main.command("report")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True))
def report_command(files: tuple[Path, ...]) -> None:
    """Make the pages anew from their JSON."""
    for file in files:
        click.echo(rebuilt(file))


@contextmanager
def _real(options: UpOptions) -> Iterator[Stack]:
    with (
        tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder,
        running_up(options, Path(folder)) as stack,
    ):
        yield stack


def _emptied(stack: Stack) -> Callable[[], Any]:
    """One stack for all ways, its engine emptied before each."""

    @contextmanager
    def anew() -> Iterator[Stack]:
        stack.flush_engine()
        yield stack

    return anew


def _listed(records: Iterator[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    """All records, told as they come; a prediction's parts are left out."""
    listed = []
    for record in records:
        del record["costs"]
        listed.append(record)
        _say(
            f"{record.get('round', record.get('visit'))} {record[what]}: {record['ttft_s']:.3f} s, "
            f"predicted {record['predicted_s']:.3f} s; {record['prompt_tokens']} tokens, "
            f"{record['cached_tokens']} re-used, {record['by_tier']}"
        )
    return listed


def _say(line: str) -> None:
    click.echo(line, err=True)


def _engine(model: str | None) -> str:
    name = "SmolLM2-135M-Instruct" if model is None else Path(model).name
    return f"SGLang on this machine's CPU, model {name}"


def _write(
    kind: str,
    stem: str,
    folder: Path,
    *,
    engine: str,
    options: dict[str, Any],
    measured: Any,
    judged: bool = True,
) -> None:
    command = shlex.join(["python", "-m", "bench.rag_cag", *sys.argv[1:]])
    result = result_of(kind, engine=engine, command=command, options=options, measured=measured)
    click.echo(write_result(result, folder / stem))
    if judged and not is_good(kind, measured):
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        click.echo(f"bench.rag_cag: {error}", err=True)
        sys.exit(1)
