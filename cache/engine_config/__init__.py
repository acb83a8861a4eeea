"""Lint of engine configurations: SGLang, LMCache's tier server, Redis, and how they fit
together."""

from cache.engine_config.linting import check_engine, lint_configs
from cache.engine_config.reading import ConfigKind, read_config

__all__ = ["ConfigKind", "check_engine", "lint_configs", "read_config"]
