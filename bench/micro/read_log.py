"""Diagnose one log file: `python -m bench.micro.read_log FILE [TOKENIZER]`, for `lint_log`."""

import sys
from pathlib import Path

from cache.request_log import LogOptions, lint_log, render_text
from prompts import load_tokenizer


def main(path: str, tokenizer: str | None = None) -> None:
    """Write the diagnosis of a log to standard output."""
    loaded = load_tokenizer(Path(tokenizer)) if tokenizer else None
    sys.stdout.write(render_text(lint_log(LogOptions(path=Path(path), tokenizer=loaded))))


if __name__ == "__main__":
    main(*sys.argv[1:])
