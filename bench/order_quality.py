"""What the order of passages does to answers, and to re-use: `python -m bench.order_quality`.

Asks each question of a collection once in every order, orders by turns so that none has the warmer
cache, and compares the answers with the known ones: whether a known answer stands in it word for
word, and the best token F1 (SQuAD's normalisation). Each order has its own instructions in front,
so that none re-uses what another left.
"""

import json
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import httpx

ORDERS = ("collection", "relevance", "cached")
_TIMEOUT_S = 600.0
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question in one order; `cached_tokens` is None where the engine didn't tell."""

    order: str
    question: str
    answer: str
    held: bool
    f1: float
    prompt_tokens: int
    cached_tokens: int | None


def words_of(text: str) -> list[str]:
    """Words without case, punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def token_f1(answer: str, known: str) -> float:
    """The harmonic mean of precision and recall in words, 0 to 1."""
    ours, theirs = words_of(answer), words_of(known)
    both = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * both / (len(ours) + len(theirs)) if both else 0.0


def holds(answer: str, known: str) -> bool:
    """Whether the known answer stands in an answer, word for word."""
    return f" {' '.join(words_of(known))} " in f" {' '.join(words_of(answer))} "


def ask_all(
    url: str, collection: str, questions: Sequence[dict[str, Any]], *, passages: int
) -> Iterator[Asked]:
    """Every question in every order; which order comes first goes round."""
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as client:
        for number, item in enumerate(questions):
            turn = number % len(ORDERS)
            for order in (*ORDERS[turn:], *ORDERS[:turn]):
                yield _ask(client, collection, item, order, passages)


def _ask(
    client: httpx.Client, collection: str, item: dict[str, Any], order: str, passages: int
) -> Asked:
    options = {"collection": collection, "mode": "rag", "order": order, "passages": passages}
    body = {
        "model": "default",
        "messages": [
            {"role": "system", "content": f"(Passages by {order}.)"},
            {"role": "user", "content": item["question"]},
        ],
        "max_tokens": 64,
        "temperature": 0,
        "foreword": options,
    }
    answered = client.post("/v1/chat/completions", json=body)
    answered.raise_for_status()
    told = answered.json()
    answer = told["choices"][0]["message"]["content"] or ""
    return Asked(
        order=order,
        question=item["question"],
        answer=answer,
        held=any(holds(answer, known) for known in item["answers"]),
        f1=max(token_f1(answer, known) for known in item["answers"]),
        prompt_tokens=told["foreword"]["prompt_tokens"],
        cached_tokens=told["foreword"]["cached_tokens"],
    )


def table(asked: Sequence[Asked]) -> str:
    """Markdown: a line for each order."""
    lines = ["| order | questions | known answer in it | F1 | prompt tokens | re-used |",
             "|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for order in ORDERS:
        of = [one for one in asked if one.order == order]
        if not of:
            continue
        prompt = sum(one.prompt_tokens for one in of)
        cached = [one.cached_tokens for one in of]
        known = [tokens for tokens in cached if tokens is not None]
        reused = f"{sum(known) / prompt:.1%}" if len(known) == len(cached) else "unknown"
        held, f1 = (sum(values) / len(of) for values in ([o.held for o in of], [o.f1 for o in of]))
        lines.append(f"| {order} | {len(of)} | {held:.1%} | {f1:.3f} | {prompt:,} | {reused} |")
    return "\n".join(lines)


@click.command(help=__doc__)
@click.option("--url", required=True, help="the gateway")
@click.option("--collection", required=True)
@click.option(
    "--questions",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help='JSON lines: {"question": "…", "answers": ["…"]}',
)
@click.option("--passages", default=6, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="raw JSON lines")
def main(url: str, collection: str, questions: Path, passages: int, out: Path) -> None:
    """Ask, write the raw answers down, print the table."""
    items = [json.loads(line) for line in questions.read_text("utf-8").splitlines() if line]
    asked: list[Asked] = []
    with out.open("w", encoding="utf-8") as file:
        for one in ask_all(url, collection, items, passages=passages):
            asked.append(one)
            file.write(json.dumps(asdict(one), ensure_ascii=False) + "\n")
    sys.stdout.write(table(asked) + "\n")


if __name__ == "__main__":
    main()
