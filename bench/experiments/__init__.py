"""Named comparisons, each made anew by one command: `python -m bench.experiments NAME`."""
