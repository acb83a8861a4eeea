"""`python -m bench.rag_cag`: RAG, CAG and the choice between them, through a gateway."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from bench.rag_cag import tables, ttft
from bench.rag_cag.stacks import UpOptions, running_up


@click.group(context_settings={"show_default": True})
def main() -> None:
    pass


@main.command("ttft")
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--rounds", default=7)
@click.option("--learning-rounds", default=3)
@click.option("--pool-tokens", default=16_000)
@click.option("--model", default=None)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def ttft_command(**options: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder:
        up = UpOptions(cache=options["cache"], pool_tokens=options["pool_tokens"], model=options["model"])
        records = []
        with running_up(up, Path(folder)) as stack:
            for record in ttft.measure(stack, ttft.TtftOptions(rounds=options["rounds"], learning_rounds=options["learning_rounds"])):
                records.append(record)
                click.echo(f"{record['round']} {record['arm']}: {record['ttft_s']:.3f} s, predicted {record['predicted_s']}, prompt {record['prompt_tokens']} cached {record['cached_tokens']} tiers {record['by_tier']}", err=True)
                options["out"].write_text("".join(json.dumps(r) + "\n" for r in records))
        click.echo(tables.ttft_table(records))


@main.command("auto")
@click.option("--questions", default=1000)
@click.option("--seed", default=1)
@click.option("--speedup", default=8.0)
@click.option("--only", multiple=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def auto_command(**options: Any) -> None:
    from bench.rag_cag import auto, workload, score
    from bench.rag_cag.stacks import running_simulated
    from bench.soak.model_folder import write_model_folder
    sites = workload.mixed()
    happened = workload.events(sites, questions=options["questions"], seed=options["seed"])
    click.echo(str(workload.counts(happened)), err=True)
    out = options["out"]
    results: dict[str, Any] = {}
    spent = {}

    def one(name, modes):
        with tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder:
            model = write_model_folder(Path(folder) / "model")
            s = options["speedup"]
            sim = ["--model-path", str(model), "--served-model-name", "sim", "--max-total-tokens", "60000", "--context-length", "24576", "--enable-priority-scheduling", "--radix-eviction-policy", "priority", "--kv-events-endpoint", "tcp://127.0.0.1:0", "--kv-events-replay-endpoint", "tcp://127.0.0.1:0", "--speedup", str(s), "--label", "template"]
            env = {"FOREWORD_MODES__DWELL_S": str(60 / s), "FOREWORD_MODES__LONGEST_WAIT_S": str(5 / s), "FOREWORD_CORPORA__HALF_LIFE_S": str(3600 / s)}
            records = []
            with running_simulated(sim, Path(folder), env) as stack:
                import time
                began = time.time()
                sums = auto.run(stack, sites, happened, modes=modes, tokens_per_s=3000.0, seen=records.append)
            by = score.by_collection(records)
            spent[name] = by
            results[name] = {**sums, "by_collection": by, "total_s": sum(by.values()) + sums["warmed_s"], "records": records}
            from collections import Counter
            used = {site.name: dict(Counter(r["mode"] for r in records if r["collection"] == site.name)) for site in sites}
            click.echo(f"{name}: total {results[name]['total_s']:.1f} warmed {sums['warmed_s']:.1f} engine {sums['engine_s']:.1f} took {time.time()-began:.0f} s; {by} {used}", err=True)
            out.write_text(json.dumps(results))

    if not options["only"] or "fixed" in options["only"]:
        one("rag", auto.always("rag"))
        one("cag", auto.always("cag"))
        best = score.best_in_hindsight(spent)
        click.echo(str(best), err=True)
        one("best", lambda fits: best.modes)
    one("auto", auto.always("auto"))


if __name__ == "__main__":
    main()
