"""Runs and replays as Markdown and as one HTML page, made from their raw lines alone."""
