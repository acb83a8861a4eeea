"""The linter of templates, prompt files and Python source: where re-use ends, and what it costs."""
