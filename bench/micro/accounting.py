"""`python -m bench.micro.accounting --tokenizer FOLDER`: what the accounting of a request costs.

A prompt of about 20 KB in ten documents is asked about over and over, each time with another
question. The prefix index is left out (`bench.micro.prefix_index` has it): a stand-in answers at
once that all was left and is resident. The figure is the lower quartile of single calls, in wall
time, of the best of several rounds.
"""

import random
import time
from itertools import pairwise
from pathlib import Path

import click

from bench.micro.words import sentences
from cache.accounting import Accountant, EngineRules, Outcome, Piece, SentPrompt, pieces_of
from cache.page_keys import PageKeys
from cache.prefix_match import Match, ReplicaMatch
from prompts import (
    PromptDocument,
    TokenizedPrompt,
    load_templates,
    load_tokenizer,
    render,
    shipped_templates,
)

_PAGE_TOKENS = 16
_DOCUMENTS = 10
_DOCUMENT_CHARACTERS = 2_000
_PROMPTS = 300
_ROUNDS = 7
_OUTPUT_TOKENS = 40
_SEED = 7
_STEPS = ("pieces_of", "SentPrompt", "expect", "first_token", "settle")


class ReadyIndex:
    """A prefix index that has its one answer at hand."""

    def __init__(self, tokens: int) -> None:
        pages = tokens // _PAGE_TOKENS - 3
        replica = ReplicaMatch(left=pages, racing=pages, resident=pages, resident_at_least=pages)
        self.tokens = pages * _PAGE_TOKENS
        self._keys = PageKeys(bytes(8 * pages))
        self._match = Match(left=pages, racing=pages, replicas={"r0": replica})

    def keys(self, token_ids: object) -> PageKeys:
        return self._keys

    def extended(self, keys: PageKeys, token_ids: bytes) -> PageKeys:
        return self._keys

    def match(self, keys: PageKeys, **where: object) -> Match:
        return self._match

    def sent(self, keys: PageKeys, **where: object) -> None:
        """Nothing is learnt."""

    computed = gave_up = tiered = served = sent


def prompts(tokenizer: Path) -> list[TokenizedPrompt]:
    """Questions about the same documents."""
    words = random.Random(_SEED)
    documents = [
        PromptDocument(name=f"{number}.md", text=sentences(words, _DOCUMENT_CHARACTERS))
        for number in range(_DOCUMENTS)
    ]
    template, encoder = load_templates(shipped_templates()).find("docqa"), load_tokenizer(tokenizer)
    return [
        encoder.tokenize(
            render(template, {"documents": documents, "question": sentences(words, 60)})
        )
        for _ in range(_PROMPTS)
    ]


def measure(made: list[TokenizedPrompt]) -> dict[str, float]:
    """Microseconds of each step."""
    best: dict[str, float] = {}
    for _ in range(_ROUNDS):
        for name, times in _round(made).items():
            quartile = sorted(times)[len(times) // 4] * 1e6
            best[name] = min(best.get(name, quartile), quartile)
    return best


def _round(made: list[TokenizedPrompt]) -> dict[str, list[float]]:
    index = ReadyIndex(len(made[0].token_ids))
    accountant = Accountant(index)
    times: dict[str, list[float]] = {name: [] for name in _STEPS}
    for number, prompt in enumerate(made):
        marks = [time.perf_counter()]
        pieces = pieces_of(prompt)
        marks.append(time.perf_counter())
        sent = _sent(prompt, pieces, number)
        marks.append(time.perf_counter())
        expectation = accountant.expect(sent, EngineRules(page_tokens=_PAGE_TOKENS))
        marks.append(time.perf_counter())
        accountant.first_token(expectation, number + 0.1)
        marks.append(time.perf_counter())
        accountant.settle(expectation, _outcome(index.tokens, number))
        marks.append(time.perf_counter())
        for name, (began, ended) in zip(_STEPS, pairwise(marks), strict=True):
            times[name].append(ended - began)
    return times


def _sent(prompt: TokenizedPrompt, pieces: tuple[Piece, ...], number: int) -> SentPrompt:
    return SentPrompt(
        request_id=f"r{number}",
        template=prompt.prompt.template,
        tenant="local",
        salt="salt",
        replica="r0",
        collection="island",
        packed=prompt.packed,
        pieces=pieces,
        scaffold_tokens=prompt.ranges[0].stop,
        sent_at=float(number),
    )


def _outcome(cached_tokens: int, number: int) -> Outcome:
    return Outcome(
        cached_tokens=cached_tokens,
        cached_gpu=cached_tokens,
        cached_storage=0,
        output_ids=list(range(_OUTPUT_TOKENS)),
        first_token_at=number + 0.1,
        ended_at=number + 0.5,
        completed=True,
    )


@click.command()
@click.option("--tokenizer", type=click.Path(path_type=Path, exists=True), required=True)
def main(tokenizer: Path) -> None:
    """Print what each step costs."""
    made = prompts(tokenizer)
    click.echo(f"{len(made[0].token_ids):,} tokens, {len(pieces_of(made[0]))} pieces")
    figures = measure(made)
    for name, microseconds in figures.items():
        click.echo(f"{microseconds:8.1f} µs  {name}")
    together = figures["expect"] + figures["first_token"] + figures["settle"]
    click.echo(f"{together:8.1f} µs  expect, first_token and settle together")


if __name__ == "__main__":
    main()
