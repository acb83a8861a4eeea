"""Tenants in rotation, each with a corpus about as large as the engine's memory.

No two fit there together, so whatever a visit finds it finds in the tiers. The first visits compute
everything; they are what the later ones are held against.

A gateway without accounts has one tenant. To the engine and the tiers a tenant is a salt of its
own, and that is what each collection has.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench.rag_cag.client import Gateway
from bench.rag_cag.stacks import Stack
from bench.rag_cag.texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantOptions:
    """How many, how often each is visited again, and how large a corpus is.

    Attributes:
        share: of the pool that a corpus takes; question and answer need the rest.
    """

    tenants: int = 4
    visits: int = 3
    share: float = 0.93
    characters: int = 1_400


def measure(stack: Stack, options: TenantOptions, *, pool_tokens: int) -> Iterator[dict[str, Any]]:
    """A record for each visit; visit 0 is the one that computes.

    Raises:
        GatewayAnswerError: the gateway refuses.
    """
    gateway = Gateway(stack.url)
    try:
        goal = options.share * pool_tokens
        documents = _documents(gateway, options, goal)
        texts = [
            Texts(seed=f"tenant {n}", documents=documents, characters=options.characters)
            for n in range(options.tenants)
        ]
        stores = [gateway.add_collection(each.seed, each.all()) for each in texts]
        corpora = [gateway.corpus(store)["tokens"] for store in stores]
        for visit in range(options.visits + 1):
            for tenant, store in enumerate(stores):
                question = texts[tenant].question(visit)
                asked = gateway.ask(store, question, mode="cag")
                stack.let_stores_end()
                yield {
                    "visit": visit,
                    "arm": "computed" if visit == 0 else "from the tiers",
                    "tenant": tenant,
                    "corpus_tokens": corpora[tenant],
                    "pool_tokens": pool_tokens,
                    **asdict(asked),
                    "computed_tokens": asked.computed_tokens,
                    "loaded_tokens": asked.loaded_tokens,
                }
    finally:
        gateway.close()


def _documents(gateway: Gateway, options: TenantOptions, goal_tokens: float) -> int:
    """How many documents make a corpus of so many tokens, by a small one's count."""
    small = Texts(seed="a few", documents=4, characters=options.characters)
    store = gateway.add_collection("a few", small.all())
    told = gateway.corpus(store)
    gateway.remove_collection(store)
    scaffold = int(told["tokens"] - told["document_tokens"])
    each = float(told["document_tokens"]) / small.documents
    return max(1, round((goal_tokens - scaffold) / each))
