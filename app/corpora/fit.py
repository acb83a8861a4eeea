"""Whether a corpus fits the engine. Pure."""

from app.corpora.values import CorpusPrefix
from app.engine import EngineInfo


def largest_corpus(info: EngineInfo, *, reserve_tokens: int) -> int:
    """Most tokens of a corpus that a prompt can begin with."""
    limits = [info.context_tokens] + ([info.pool_tokens] if info.pool_tokens else [])
    return min(limits) - reserve_tokens


def misfit(prefix: CorpusPrefix, info: EngineInfo, *, reserve_tokens: int) -> str | None:
    """Why a corpus can't be used as a whole, with the numbers; None if it can."""
    most = largest_corpus(info, reserve_tokens=reserve_tokens)
    if prefix.tokens is None or prefix.tokens <= most:
        return None
    pool = f" and its KV pool {info.pool_tokens:,}" if info.pool_tokens else ""
    return (
        f"all its documents are {prefix.tokens:,} tokens; the model's window is "
        f"{info.context_tokens:,}{pool}, of which {reserve_tokens:,} are left for question and "
        "answer: use mode rag, or split the collection"
    )
