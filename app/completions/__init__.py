"""`/v1/completions`: a prompt's own words or token ids, gone on with; no template, no messages."""

from app.completions.body import AnswerRequest, CompletionRequest

__all__ = ["AnswerRequest", "CompletionRequest"]
