"""How long a large request log takes to diagnose, and in how much memory.

The log is made as it is read: 50 templates of about 8 KB, used with Zipf's frequencies, one request
in five continuing the conversation before, five templates with a timestamp at their top. 100,000
requests are about 875 MB. CPU time and memory include making it.

    python -m bench.micro.lint_log [--requests N] [--tokenizer FOLDER] [--rivals FOLDER]

`--rivals` is the `bin` folder of an environment with kvlint 0.1.1, cachelint 0.1.0a2 and
promptcachelint 0.1.0. They then run on the same log, each as a process of its own. cachelint
compares bodies and promptcachelint calls of sessions; neither models a cache or names a cause per
template, and kvlint needs the tokenizer.
"""

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path

import click
import orjson

from cache.request_log import Diagnosis, LogOptions, diagnose
from prompts import load_tokenizer

_TEMPLATES = 50
_TEMPLATE_BYTES = 8_230
_WITH_CLOCK = 5
_FOLLOW_UPS = 0.2
_SYLLABLES = "ka lo mi ten dor vas pel ru gan shi bro quen ast ol ferr im".split()  # noqa: SIM905


def log_lines(requests: int, *, seed: int = 1) -> Iterator[bytes]:
    """The lines of a log, always the same for one seed."""
    chance = random.Random(seed)
    templates = [_words(chance, _TEMPLATE_BYTES) for _ in range(_TEMPLATES)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(_TEMPLATES)))
    latest: list[list[dict[str, str]]] = [[] for _ in range(_TEMPLATES)]
    for number in range(requests):
        template = chance.choices(range(_TEMPLATES), cum_weights=weights)[0]
        turns = latest[template]
        if not turns or chance.random() >= _FOLLOW_UPS:
            turns.clear()
        else:
            turns.append({"role": "assistant", "content": _words(chance, 150)})
        turns.append({"role": "user", "content": f"Question {number}: {_words(chance, 200)}"})
        text = templates[template]
        if template % (_TEMPLATES // _WITH_CLOCK) == _WITH_CLOCK:
            now = timedelta(seconds=number) + datetime(2026, 11, 29)
            text = f"Current time: {now}\n{text}"
        body = {"model": "m", "messages": [{"role": "system", "content": text}, *turns]}
        yield orjson.dumps(body) + b"\n"


def _words(chance: random.Random, size: int) -> str:
    """Sentences of made-up words, one a line, about `size` characters."""
    words: list[str] = []
    length = 0
    while length < size:
        word = "".join(chance.choices(_SYLLABLES, k=2))
        word += ".\n" if chance.random() < 0.08 else " "
        words.append(word)
        length += len(word)
    return "".join(words)


@click.command()
@click.option("--requests", default=100_000, show_default=True)
@click.option("--tokenizer", type=click.Path(path_type=Path, file_okay=False))
@click.option("--rivals", type=click.Path(path_type=Path, exists=True), help="Folder of programs.")
@click.option("--limit-s", default=120.0, show_default=True, help="Wall time for each rival.")
def main(requests: int, tokenizer: Path | None, rivals: Path | None, limit_s: float) -> None:
    """Make a log, diagnose it and print what that took, with --rivals also for other linters."""
    if rivals is not None:
        compare(requests, tokenizer, rivals, limit_s)
        return
    options = LogOptions(tokenizer=load_tokenizer(tokenizer) if tokenizer else None)
    started = time.process_time()
    read = _Counted(log_lines(requests))
    diagnosis = diagnose(read, options)
    cpu_s = time.process_time() - started
    click.echo(_result(diagnosis, cpu_s, read.num_bytes))


def compare(requests: int, tokenizer: Path | None, rivals: Path, limit_s: float) -> None:
    """Time each program as a process of its own on the same log, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        bare, wrapped = Path(folder) / "bare.jsonl", Path(folder) / "wrapped.jsonl"
        with bare.open("wb") as file, wrapped.open("wb") as other:
            for line in log_lines(requests):
                file.write(line)
                other.write(b'{"provider":"openai","body":' + line.rstrip() + b"}\n")
        ours = [sys.executable, "-m", "bench.micro.read_log", str(bare)]
        commands = {
            "foreword": ours,
            "cachelint": [str(rivals / "cachelint"), "analyze", "--provider=openai", str(bare)],
            "promptcachelint": [str(rivals / "promptcachelint"), "report", "--json", str(wrapped)],
        }
        if tokenizer is not None:
            kvlint = [str(rivals / "kvlint"), "lint", f"--model={tokenizer.resolve()}", str(bare)]
            commands |= {
                "foreword, exact tokens": [*ours, str(tokenizer.resolve())],
                "kvlint": kvlint,
            }
        click.echo(f"{requests:,} requests, {bare.stat().st_size / 1e6:,.0f} MB")
        base_s = None
        for name, command in commands.items():
            cpu_s = _cpu_s(command, limit_s)
            base_s = base_s or cpu_s
            ratio = (
                f"{cpu_s / base_s:6.1f} x" if cpu_s and base_s else f"no result in {limit_s:.0f} s"
            )
            click.echo(f"{name:<24} {cpu_s or 0:8.1f} CPU s  {ratio}")


def _cpu_s(command: list[str], limit_s: float) -> float | None:
    """CPU seconds of a finished process, None for one that did not finish in time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class _Counted:
    """Lines, with their bytes added up as they are read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.num_bytes = 0
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.num_bytes += len(line)
            yield line


def _result(diagnosis: Diagnosis, cpu_s: float, num_bytes: int) -> str:
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    codes = sorted({finding.code for finding in diagnosis.findings})
    return (
        f"{diagnosis.requests:,} requests, {num_bytes / 1e6:,.0f} MB: {cpu_s:.1f} CPU s, "
        f"{peak_mb:,.0f} MB peak, {diagnosis.requests / cpu_s:,.0f} requests per CPU s; "
        f"{len(diagnosis.groups)} templates, hit rate {diagnosis.rates.ideal:.1%} as sent, "
        f"{diagnosis.rates.repaired:.1%} repaired; {len(diagnosis.findings)} findings {codes}"
    )


if __name__ == "__main__":
    main()
