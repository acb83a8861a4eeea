"""Lint of engine configurations: SGLang, LMCache's tier server, Redis, and how they fit
together."""

from cache.engine_config.linting import check_engine, lint_configs
from cache.engine_config.reading import ConfigKind, read_config
from cache.engine_config.secret_values import covered

__all__ = ["ConfigKind", "check_engine", "covered", "lint_configs", "read_config"]
