"""One's own traffic from the gateway's ledger: lengths, times, and how much prompts shared.

The ledger has no text and no token ids. What it has is each prompt's length and its ideal: how many
of its first tokens some earlier prompt had. So a request's first `ideal` words are those of an
earlier one of its tenant, template and collection, and the rest is new. Which earlier one it was
isn't known: the last that is long enough is taken. Answers that were part of a later prompt are
words here, not what the engine said.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from bench.errors import WorkloadError
from bench.workloads.chance import Chance
from bench.workloads.file import WorkloadRequest, asked
from bench.workloads.vocabulary import Vocabulary
from cache.tables import ledger

# Of one tenant, template and collection: beyond, the oldest prompts are forgotten.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """What the ledger has of one request; None is unknown."""

    at: datetime
    e2e_s: float | None
    group: tuple[str, str, str | None]
    prompt_tokens: int
    ideal_tokens: int | None
    output_tokens: int | None

    @property
    def began_s(self) -> float:
        """When it came, in seconds since 1970: the ledger's time is that of its end."""
        return self.at.timestamp() - (self.e2e_s or 0.0)


def read_ledger(url: str, *, last: int) -> list[SeenRequest]:
    """The last requests whose prompt's length is known, in the order in which they came.

    Args:
        url: SQLAlchemy's, `sqlite:///…` or `postgresql+psycopg://…`; only read.

    Raises:
        WorkloadError: it can't be opened, or isn't a gateway's database.
    """
    columns = ledger.c
    statement = (
        sa.select(
            columns.at,
            columns.e2e_s,
            columns.tenant,
            columns.template,
            columns.collection,
            columns.prompt_tokens,
            columns.ideal_tokens,
            columns.completion_tokens,
        )
        .where(columns.prompt_tokens.is_not(None))
        .order_by(columns.at.desc())
        .limit(last)
    )
    try:
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            rows = connection.execute(statement).all()
        engine.dispose()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        told = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise WorkloadError("the ledger", f"can't be read: {told}") from error
    seen = [
        SeenRequest(
            at=row.at,
            e2e_s=row.e2e_s,
            group=(row.tenant, row.template, row.collection),
            prompt_tokens=row.prompt_tokens,
            ideal_tokens=row.ideal_tokens,
            output_tokens=row.completion_tokens,
        )
        for row in rows
    ]
    return sorted(seen, key=lambda each: each.began_s)


def ledger_requests(
    seen: Iterable[SeenRequest], vocabulary: Vocabulary, seed: int, *, default_output: int
) -> Iterator[WorkloadRequest]:
    """The requests with their own times; tenants, templates and collections are numbers.

    Where the ideal isn't known, a prompt shares nothing.
    """
    earlier: dict[tuple[str, str, str | None], list[list[str]]] = {}
    names: dict[tuple[str, str, str | None], str] = {}
    began_s: float | None = None
    for number, each in enumerate(seen):
        began_s = each.began_s if began_s is None else began_s
        prompts = earlier.setdefault(each.group, [])
        words = _opening(prompts, min(each.ideal_tokens or 0, each.prompt_tokens))
        fresh = vocabulary.text(Chance(seed, f"request/{number}"), each.prompt_tokens - len(words))
        words += fresh.split()
        output = max(1, each.output_tokens or default_output)
        said = vocabulary.text(Chance(seed, f"answer/{number}"), output).split()
        prompts.append(words + said)
        del prompts[:-_REMEMBERED]
        yield asked(
            {"messages": [{"role": "user", "content": " ".join(words)}]},
            id=f"ledger-{number}",
            at_s=round(each.began_s - began_s, 6),
            max_tokens=output,
            labels={"group": names.setdefault(each.group, str(len(names)))},
        )


def _opening(prompts: list[list[str]], length: int) -> list[str]:
    """So many first words of an earlier prompt, or fewer where none was that long."""
    if not length or not prompts:
        return []
    long_enough = next((p for p in reversed(prompts) if len(p) >= length), None)
    return (long_enough or max(prompts, key=len))[:length]
