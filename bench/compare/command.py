"""`foreword bench compare`: runs there are, two targets in turns, or a named experiment."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
import orjson

from bench.compare.abab import FEWEST_ROUNDS, Side, alternate
from bench.compare.arms import ANY_PHASE, Arm, read_arm
from bench.compare.comparable import VARIES
from bench.compare.comparison import Comparison, compare_arms
from bench.compare.page import comparison_page
from bench.errors import BenchError, RunFolderError

_COMMAND = "foreword bench compare"
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(context_settings={"show_default": True})
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.argument("run_options", nargs=-1, type=click.UNPROCESSED)
@click.option("--phase", type=click.Choice(["warm", "cold", ANY_PHASE]), default="warm",
              help="which requests count")  # fmt: skip
@click.option("--varies", type=click.Choice(VARIES), multiple=True,
              help="what A and B are meant to differ in; anything else is refused")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--run", is_flag=True, help="A and B are URLs: ask both in turns, then compare")
@click.option("--workload", type=_FILE, help="--run: the requests")
@click.option("--workload-b", type=_FILE, help="--run: those of B, with --varies workload")
@click.option("--rounds", type=click.IntRange(1), default=4, help="--run, --experiment")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="of the runs  [--experiment: bench/results/compare-NAME]")  # fmt: skip
@click.option("--experiment", metavar="NAME", help="one of those that --list tells")
@click.option("--list", "listed", is_flag=True, help="tell the named experiments")
@click.option("--real", is_flag=True,
              help="--experiment: SGLang and LMCache on this CPU, no simulated engine")  # fmt: skip
@click.option("--model", help="--experiment --real: as of `foreword up`")
@click.option("--cache", type=click.Path(path_type=Path), default=Path(".foreword/cache"),
              help="--experiment --real: the engine's environment and models")  # fmt: skip
@click.option("--requests", type=click.IntRange(4), help="--experiment: of each run")
@click.option("--scale", type=click.FloatRange(0.05), default=1.0,
              help="--experiment: rules and documents so many times as long")  # fmt: skip
@click.option("--html/--no-html", default=True, help="--experiment: the page of 5 MB")
def compare(
    a: str | None,
    b: str | None,
    run_options: tuple[str, ...],
    phase: str,
    varies: tuple[str, ...],
    form: str,
    **asked: Any,
) -> None:
    """Is B faster than A, slower, or is no difference shown?

    A and B are folders of runs of the same requests: one run each, or a folder of rounds. With
    --run they are URLs, and after `--` come options of `foreword bench run`. Runs that say nothing
    about each other are refused (exit status 2); an experiment that doesn't come out as it should
    ends with 1.
    """
    if asked["listed"]:
        _list()
        return
    try:
        if asked["experiment"] is not None:
            raise click.exceptions.Exit(_experiment(asked))
        if a is None or b is None:
            raise click.UsageError("name A and B, or --experiment NAME")
        folders = _ask_both(a, b, run_options, asked) if asked["run"] else (Path(a), Path(b))
        arms = _arms(*folders)
        _print(compare_arms(*arms, phase=phase, varies=varies), form)
    except BenchError as error:
        click.echo(f"{_COMMAND}: {error}", err=True)
        raise click.exceptions.Exit(2) from error


def _arms(a: Path, b: Path) -> tuple[Arm, Arm]:
    same = a.resolve().name == b.resolve().name
    names = [each.as_posix() if same else each.resolve().name for each in (a, b)]
    return read_arm(a, names[0]), read_arm(b, names[1])


def _print(comparison: Comparison, form: str) -> None:
    if form == "json":
        told = {"schema_version": 1, **comparison.as_json()}
        click.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(comparison_page(comparison))


def _ask_both(
    a: str, b: str, run_options: Sequence[str], asked: dict[str, Any]
) -> tuple[Path, Path]:
    """Make the runs in turns; the folders of both."""
    workload, out = asked["workload"], asked["out"]
    if workload is None or out is None:
        raise click.UsageError("--run needs --workload and --out")
    if asked["rounds"] < FEWEST_ROUNDS:
        click.echo("one round each says nothing of how much runs differ", err=True)
    first = _side("a", a, workload, run_options)
    second = _side("b", b, asked["workload_b"] or workload, run_options)
    for name, number, folder in alternate(first, second, rounds=asked["rounds"], out=out):
        click.echo(f"round {number} of {name}: {folder}", err=True)
    return out / "a", out / "b"


def _side(name: str, url: str, workload: Path, run_options: Sequence[str]) -> Side:
    def send(folder: Path) -> None:
        from bench.load.command import run

        arguments = [str(workload), "--url", url, "--output", str(folder), *run_options]
        with redirect_stdout(sys.stderr):
            status = run.main(arguments, prog_name="foreword bench run", standalone_mode=False)
        # 1 is a run that doesn't count: comparing it is refused, with its reasons.
        if status not in (None, 0, 1):
            raise RunFolderError(folder, f"`foreword bench run` ended with {status}")

    return Side(name=name, before=lambda: None, send=send)


def _list() -> None:
    from bench.experiments.catalogue import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        simulated = " (simulated only)" if experiment.only_simulated else ""
        click.echo(f"{experiment.name}: {experiment.question}{simulated}")


def _experiment(asked: dict[str, Any]) -> int:
    from bench.experiments.catalogue import EXPERIMENTS
    from bench.experiments.command import run_experiment, told_command

    name = asked["experiment"]
    if name not in EXPERIMENTS:
        raise click.UsageError(f"no experiment is called {name}; --list tells them")
    chosen = {key: asked[key] for key in ("real", "model", "rounds", "requests", "scale")}
    return run_experiment(
        name,
        **chosen,
        cache=asked["cache"],
        out=asked["out"],
        html=asked["html"],
        command=told_command(f"{_COMMAND} --experiment", name, **chosen),
        say=lambda line: click.echo(line, err=True),
    )
