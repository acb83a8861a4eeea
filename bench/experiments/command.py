"""An experiment by its name, as `python -m bench.experiments` and `bench compare --experiment`."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from bench.errors import BenchError
from bench.experiments.catalogue import EXPERIMENTS, Experiment
from bench.experiments.contents import Sizes, rotation
from bench.experiments.places import Host, prepare, tokens_per_word
from bench.experiments.run import make
from bench.experiments.sending import send
from bench.pages.found import find
from bench.pages.markdown import render_markdown
from bench.pages.page import render_html
from bench.pages.parts import has_failed, page_of

RESULTS = Path("bench/results")

Say = Callable[[str], None]


def run_experiment(
    name: str,
    *,
    real: bool,
    model: str | None,
    cache: Path,
    rounds: int,
    requests: int | None,
    scale: float,
    out: Path | None,
    html: bool,
    command: str,
    say: Say,
) -> int:
    """Make it, and its pages; returns the exit status: 1 where it isn't as it should be.

    Raises:
        BenchError: it could not be made.
    """
    experiment = EXPERIMENTS[name]
    host = Host(real=real, cache=cache, model=model)
    if real and not experiment.only_simulated:
        prepare(host, say)
    sizes = _sizes(experiment, host, requests, scale)
    place = out or RESULTS / f"compare-{name}"
    # Results that are there stay until there are others.
    made = place if out is not None else place.with_name(f"{place.name}.part")
    if out is None and made.exists():
        shutil.rmtree(made)
    with _ended_by_sigterm():
        make(
            experiment,
            host,
            sizes,
            rounds=rounds,
            out=made,
            command=command,
            send=send,
            say=say,
        )
    if out is None:
        if place.exists():
            shutil.rmtree(place)
        made.rename(place)
    found = find([place])
    page = page_of(f"{name}: {experiment.question}", found, phase="warm")
    text = render_markdown(page)
    (place / "report.md").write_text(text)
    if html:
        (place / "report.html").write_text(render_html(page))
    click.echo(text)
    failed = [pair.compared.title for pair in found.pairs if has_failed(pair)]
    if failed:
        say(f"not as it should be: {', '.join(failed)}")
    return 1 if failed else 0


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """What was started ends with us, as after an interrupt."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sizes(experiment: Experiment, host: Host, requests: int | None, scale: float) -> Sizes:
    sizes = experiment.sizes.scaled(scale)
    if requests is not None:
        sizes = replace(sizes, requests=requests)
    (text, *_) = rotation(sizes)[0].shared
    rate = tokens_per_word(host, text)
    return sizes if rate is None else replace(sizes, tokens_per_word=rate)


@click.command(context_settings={"show_default": True})
@click.argument("name", type=click.Choice(sorted(EXPERIMENTS)))
@click.option(
    "--real", is_flag=True, help="SGLang and LMCache on this CPU, not a simulated engine."
)
@click.option("--model", default=None, help="A folder or name, as of `foreword up`.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=Path(".foreword/cache"),
    help="Where the engine's environment and models are kept.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=4)
@click.option("--requests", type=click.IntRange(min=4), default=None,
              help="Of each run; tiers and tier-size have as many as they need.")  # fmt: skip
@click.option("--scale", type=click.FloatRange(min=0.05), default=1.0,
              help="Rules and documents so many times as long.")  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), default=None, help="[default: bench/results]"
)
@click.option("--html/--no-html", default=True, help="The page with plots; 5 MB.")
def main(
    *,
    name: str,
    real: bool,
    model: str | None,
    cache: Path,
    rounds: int,
    requests: int | None,
    scale: float,
    out: Path | None,
    html: bool,
) -> None:
    """Make one of the named comparisons, in a folder of its own."""
    try:
        status = run_experiment(
            name,
            real=real,
            model=model,
            cache=cache,
            rounds=rounds,
            requests=requests,
            scale=scale,
            out=out,
            html=html,
            command=told_command(
                "python -m bench.experiments",
                name,
                real=real,
                model=model,
                rounds=rounds,
                requests=requests,
                scale=scale,
            ),
            say=lambda line: click.echo(line, err=True),
        )
    except BenchError as error:
        click.echo(f"bench.experiments: {error}", err=True)
        sys.exit(3)
    sys.exit(status)


def told_command(
    program: str,
    name: str,
    *,
    real: bool,
    model: str | None,
    rounds: int,
    requests: int | None,
    scale: float,
) -> str:
    """The command as it can be given anywhere: without paths of this machine."""
    parts = [program, name, *(["--real"] if real else []), f"--rounds {rounds}"]
    if model is not None:
        parts.append(f"--model {Path(model).name if Path(model).is_absolute() else model}")
    if requests is not None:
        parts.append(f"--requests {requests}")
    if scale != 1:
        parts.append(f"--scale {scale:g}")
    return " ".join(parts)
