"""What an assertion about prompts can end in.

```
AssertionError
└── PrefixUnstableError     (first, second, divergence, cause)   the prompt is at fault
ValueError
└── NothingToCompareError   (problem)                            the assertion is
RuntimeError
└── RenderError             (label, problem)                     the callable didn't run
```
"""

from foreword_pytest.causes import Cause
from foreword_pytest.compare import Divergence


class PrefixUnstableError(AssertionError):
    """Two prompts part before the end of what they should share.

    Attributes:
        first, second: names of the two, as the message names them.
    """

    def __init__(
        self, message: str, *, first: str, second: str, divergence: Divergence, cause: Cause
    ) -> None:
        super().__init__(message)
        self.first = first
        self.second = second
        self.divergence = divergence
        self.cause = cause


class NothingToCompareError(ValueError):
    """What was given can't show anything: it would pass whatever the prompts are."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class RenderError(RuntimeError):
    """The callable failed in a fresh process."""

    def __init__(self, label: str, problem: str) -> None:
        super().__init__(label, problem)
        self.label = label
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the callable ran here but not in {self.label}; make it importable by itself, or "
            f"pass processes=0 to call it in this process only:\n{self.problem}"
        )
