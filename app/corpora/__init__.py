"""Whole collections as prompt prefixes: made once, warmed, watched (CAG)."""

from app.corpora.service import Corpora
from app.corpora.values import CorpusPrefix, CorpusState, CorpusStatus

__all__ = ["Corpora", "CorpusPrefix", "CorpusState", "CorpusStatus"]
