"""`prompts.records.record`, for this package's own values."""

from prompts.records import record

__all__ = ["record"]
