"""Asserts that a prompt keeps its prefix, so that an engine's prefix cache can re-use it.

This package imports nothing of Foreword: it depends on pytest alone.
"""

from foreword_pytest.assertion import assert_prefix_stable
from foreword_pytest.errors import NothingToCompareError, PrefixUnstableError, RenderError
from foreword_pytest.surroundings import Clock
from foreword_pytest.until import Until

__all__ = [
    "Clock",
    "NothingToCompareError",
    "PrefixUnstableError",
    "RenderError",
    "Until",
    "assert_prefix_stable",
]
