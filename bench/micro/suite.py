"""`python -m bench.micro.suite`: every small benchmark, one after the other, against its budget.

Each runs in a process of its own, which imports only what it measures, so that none finds
another's memory or caches. The table at the end says what was measured, what is allowed, and on
what machine. Exit code 1: over budget.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click

from bench.soak.environment import environment

_PAGE_SIZES = (16, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure and its budget; no budget: it is only shown.

    Attributes:
        least: the budget is the least allowed, not the most.
    """

    benchmark: str
    name: str
    value: float
    unit: str
    budget: float | None = None
    least: bool = False

    @property
    def good(self) -> bool:
        if self.budget is None:
            return True
        return self.value >= self.budget if self.least else self.value <= self.budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """How large, and with which files; `traces` None: only made-up workloads."""

    rows: int
    pages: int
    traces: Path | None
    folder: Path


def prefix_index_time(_options: SuiteOptions) -> list[Figure]:
    from bench.micro.prefix_index import measure_times

    found = []
    for size in _PAGE_SIZES:
        for step, (median, best_tenth) in measure_times(size).items():
            name = f"{step}, pages of {size}"
            budget = 40.0 if step == "keys + lookup + insert" else None
            found.append(_figure("prefix_index", f"{name}, median", median, "µs", None))
            # What the code costs; how far the median is from it is the neighbours' doing.
            found.append(_figure("prefix_index", f"{name}, best tenth", best_tenth, "µs", budget))
    return found


def prefix_index_memory(options: SuiteOptions) -> list[Figure]:
    from bench.micro.prefix_index import mooncake, synthetic

    workloads = {"made-up chats": partial(synthetic, 20_000)}
    for path in sorted(options.traces.glob("mooncake_*.jsonl")) if options.traces else []:
        workloads[path.stem] = partial(mooncake, path)
    return [
        _bytes_a_page(name, workload, size, options.pages)
        for name, workload in workloads.items()
        for size in _PAGE_SIZES
    ]


def _bytes_a_page(name: str, workload: Callable[[], object], size: int, pages: int) -> Figure:
    from bench.micro.prefix_index import measure_memory

    memory = measure_memory(workload, page_tokens=size, max_pages=pages)  # type: ignore[arg-type]
    value = memory.traced_bytes / memory.pages
    return _figure("prefix_index", f"{name}, pages of {size}", value, "bytes a page", 120.0)


def accounting(options: SuiteOptions) -> list[Figure]:
    from bench.micro.accounting import measure, prompts

    budgets = {"expect": 40.0}
    steps = measure(prompts(_model(options)))
    found = [_figure("accounting", n, v, "µs", budgets.get(n)) for n, v in steps.items()]
    return [*found, _figure("accounting", "all steps", sum(steps.values()), "µs", 150.0)]


def prompt_build(options: SuiteOptions) -> list[Figure]:
    from tokenizers import Tokenizer

    from bench.micro.prompt_build import corpus_figures, text_figures, token_figures
    from prompts import load_tokenizer

    folder = _model(options)
    tokenizer = load_tokenizer(folder)
    whole = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made = [*text_figures(), *token_figures(tokenizer, whole), *corpus_figures(tokenizer)]
    first = made[0].name
    return [
        _figure("prompt_build", f.name, f.cpu_s * 1e6, "µs", 60.0 if f.name == first else None)
        for f in made
    ]


def lint_templates(_options: SuiteOptions) -> list[Figure]:
    from bench.micro.lint_templates import measure

    budgets = {"literal_cold_mb_per_s": 50.0, "literal_seen_mb_per_s": 500.0}
    return [
        Figure(
            benchmark="lint_templates",
            name=name,
            value=value,
            unit="MB/s",
            budget=budgets.get(name),
            least=True,
        )
        for name, value in measure(5).items()
        if name.endswith("mb_per_s")
    ]


def ledger_report(options: SuiteOptions) -> list[Figure]:
    from bench.micro.ledger_report import WAYS, measure

    file = options.folder / "ledger.db"
    command = [sys.executable, "-m", "bench.micro.ledger_report", "--rows", str(options.rows)]
    subprocess.run([*command, str(file)], check=True, stdout=sys.stderr)
    found = []
    for way in WAYS:
        figures, rescan = measure(file, way), way == "rescan of all rows"
        seconds = 20.0 if rescan else 2.0
        name = f"{way}, {options.rows:,} rows"
        found.append(_figure("ledger_report", name, figures["seconds"], "s", seconds))
        found.append(_figure("ledger_report", name, figures["megabytes"], "MB", 300.0))
    return found


def search(_options: SuiteOptions) -> list[Figure]:
    from bench.micro.search import CACHE, CHUNKS, measure

    budgets = {"vectors alone, p50": 1.0, "vectors alone, p99": 5.0, "recall@8 of flat": 0.95}
    return [
        Figure(
            benchmark="search",
            name=f"{name}, {CHUNKS:,} perturbed embeddings",
            value=value,
            unit=unit,
            budget=budgets.get(name),
            least=name.startswith("recall"),
        )
        for name, (value, unit) in measure(CHUNKS, CACHE).figures.items()
    ]


PARTS: dict[str, Callable[[SuiteOptions], list[Figure]]] = {
    "prefix_index_time": prefix_index_time,
    "prefix_index_memory": prefix_index_memory,
    "accounting": accounting,
    "prompt_build": prompt_build,
    "lint_templates": lint_templates,
    "ledger_report": ledger_report,
    "search": search,
}


def table(figures: Sequence[Figure], measured: dict[str, object]) -> str:
    """The figures as Markdown, those over budget in bold."""
    lines = [
        "| benchmark | | measured | budget | |",
        "|---|---|---|---|---|",
        *map(_row, figures),
        "",
        f"{measured['processor']}, {measured['cores']} cores, load average "
        f"{measured['load_average']}, Python {measured['python']}, commit {measured['commit']}.",
        "",
    ]
    return "\n".join(lines)


def _row(figure: Figure) -> str:
    allowed = ""
    if figure.budget is not None:
        allowed = f"{'≥' if figure.least else '≤'} {figure.budget:,g}"
    verdict = "" if figure.budget is None else "yes" if figure.good else "**NO**"
    value = f"{figure.value:,.2f}" if figure.value < 10 else f"{figure.value:,.0f}"
    return f"| {figure.benchmark} | {figure.name} | {value} {figure.unit} | {allowed} | {verdict} |"


def _figure(benchmark: str, name: str, value: float, unit: str, most: float | None) -> Figure:
    return Figure(benchmark=benchmark, name=name, value=value, unit=unit, budget=most)


def _model(options: SuiteOptions) -> Path:
    from bench.soak.model_folder import write_model_folder

    return write_model_folder(options.folder / "model")


def _measured(name: str, options: Sequence[str]) -> list[Figure]:
    """One part, in a process of its own."""
    command = [sys.executable, "-m", "bench.micro.suite", "--part", name, *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Figure(**fields) for fields in json.loads(done.stdout)]


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=10_000_000, help="In the ledger that reports are read from.")
@click.option("--pages", default=1_000_000, help="Bound of the prefix index.")
@click.option("--traces", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--only", multiple=True, type=click.Choice(list(PARTS)), help="May be repeated.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--part", hidden=True, type=click.Choice(list(PARTS)))
@click.option("--folder", hidden=True, type=click.Path(path_type=Path), default=None)
def main(
    *,
    rows: int,
    pages: int,
    traces: Path | None,
    only: tuple[str, ...],
    results: Path,
    part: str | None,
    folder: Path | None,
) -> None:
    """Run all benchmarks (or those named) and print the table; it is also kept in RESULTS."""
    if part is not None and folder is not None:
        options = SuiteOptions(rows=rows, pages=pages, traces=traces, folder=folder)
        click.echo(json.dumps([asdict(figure) for figure in PARTS[part](options)]))
        return
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as made:
        passed_on = [f"--rows={rows}", f"--pages={pages}", f"--folder={made}"]
        passed_on += [f"--traces={traces}"] if traces else []
        for name in only or PARTS:
            click.echo(f"{name} …", err=True)
            figures += _measured(name, passed_on)
    _keep(figures, results)
    sys.exit(0 if all(figure.good for figure in figures) else 1)


def _keep(figures: Sequence[Figure], results: Path) -> None:
    measured = environment()
    text = table(figures, measured)
    rows = [asdict(figure) | {"good": figure.good} for figure in figures]
    record = {"schema_version": 1, "environment": measured, "figures": rows}
    results.mkdir(parents=True, exist_ok=True)
    (results / "bench.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (results / "bench.md").write_text(f"# Small benchmarks\n\n{text}")
    click.echo(text)


if __name__ == "__main__":
    main()
