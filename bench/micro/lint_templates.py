"""How fast prompt files are linted: beside Jinja's own parser, and as bytes a second.

    python -m bench.micro.lint_templates [--rounds N]

Times are CPU time of this process, the best of N rounds. Jinja's parser and the linter get the same
texts in the same run, one after the other.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

import jinja2
import jinja2.ext

from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile
from prompts.lint.text_scan import TextScanner

_FILES = 200
_PROSE = (
    "You are the support assistant of a bicycle shop. Answer briefly, and only from the manual. "
    "Name the page on which you found the answer, and say so if the manual holds none.\n"
)
_FORMS = (
    '{{% for document in documents %}}<document id="{{{{ document.id }}}}">'
    "{{{{ document.text }}}}</document>\n{{% endfor %}}",
    "{{% if notes_{0} %}}\nNotes: {{{{ notes_{0} | trim }}}}\n{{% endif %}}\n",
    "{{% set tone_{0} = 'kind' %}}Be {{{{ tone_{0} }}}}.\n",
    "{{% macro row_{0}(name, value) %}}{{{{ name }}}}: {{{{ value }}}}{{% endmacro %}}"
    "{{{{ row_{0}('shop', shop) }}}}\n",
    "{{{{ question_{0} }}}} ({{{{ today_{0}.strftime('%Y-%m-%d') }}}})\n",
)


def prompt_text(number: int) -> str:
    """A prompt file of about 4 KB, a different one for each number; a fifth of it is Jinja."""
    blocks = [_PROSE * 4 + form.format(number) for form in _FORMS]
    return f"# Prompt {number}\n\n" + "".join(blocks)


def best(rounds: int, run: Callable[[], object]) -> float:
    """The least CPU seconds of a call."""
    times = []
    for _ in range(rounds):
        started = process_time()
        run()
        times.append(process_time() - started)
    return min(times)


def measure(rounds: int) -> dict[str, float]:
    """All figures, by name."""
    texts = [prompt_text(number) for number in range(_FILES)]
    sources = [SourceFile(Path(f"{n}.j2"), text.encode()) for n, text in enumerate(texts)]
    environment = jinja2.Environment(extensions=[jinja2.ext.loopcontrols, jinja2.ext.do])
    size = sum(len(source.data) for source in sources) / 1e6
    parsed = best(rounds, lambda: [environment.parse(text) for text in texts])
    linted = best(rounds, lambda: Linter(LintOptions()).lint(sources))
    prose = [_PROSE * 40 + str(number) for number in range(1000)]
    prose_size = sum(map(len, prose)) / 1e6
    accented = [text.replace("bicycle", "vélo") for text in prose]
    accented_size = sum(len(text.encode()) for text in accented) / 1e6
    scanner = TextScanner()
    cold = best(rounds, lambda: _scan(TextScanner(), prose))
    cold_accented = best(rounds, lambda: _scan(TextScanner(), accented))
    _scan(scanner, prose)
    # Equal texts, but other objects: their hashes have to be computed, as for texts read anew.
    copies = iter([[text[:1] + text[1:] for text in prose] for _ in range(rounds)])
    warm = best(rounds, lambda: _scan(scanner, next(copies)))
    return {
        "files": _FILES,
        "megabytes": size,
        "jinja_parse_s": parsed,
        "lint_s": linted,
        "lint_over_jinja_parse": linted / parsed,
        "lint_mb_per_s": size / linted,
        "literal_cold_mb_per_s": prose_size / cold,
        "literal_accented_cold_mb_per_s": accented_size / cold_accented,
        "literal_seen_mb_per_s": prose_size / warm,
    }


def _scan(scanner: TextScanner, texts: Sequence[str]) -> None:
    for text in texts:
        scanner.marks(text)


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    figures = {name: round(value, 4) for name, value in measure(arguments.rounds).items()}
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
