"""The linter for Python source: prompts, followed from where they are made to their sending."""

from prompts.lint.python.linter import lint_python

__all__ = ["lint_python"]
