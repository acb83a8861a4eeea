"""Replays of traces without an engine: what would be found again, and where. Pure."""
