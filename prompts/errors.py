"""What can go wrong with a prompt.

```
PromptError
├── TemplateError                   (path)
│   ├── TemplateSyntaxError         (path, line, column, problem)
│   ├── TemplateVolatilityError     (path, line, column, segment, variable)
│   └── DuplicateTemplateError      (path, reference, other)
├── TemplateNotFoundError           (reference, known)
├── AgentNotFoundError              (name, known)
├── VariableError                   (template, variable)
│   ├── MissingVariableError
│   ├── UnknownVariableError        (declared)
│   └── UnstableValueError          (problem)   a value with no canonical byte form
├── TokenizerNotFoundError          (path, missing)
├── LockFileError                   (path, line, problem)   prompts.lock can't be used
├── TranscriptRewriteError          (turn, offset)
├── TooManyTokensError              (limit)     a prompt isn't encoded to its end
└── ChatTemplateError               (problem)   local rendering can't be trusted for this model
```
"""

from collections.abc import Sequence
from pathlib import Path


class PromptError(Exception):
    """Root of this package's errors."""


class TemplateError(PromptError):
    """A template file is at fault."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path)


class TemplateSyntaxError(TemplateError):
    """A template file does not follow the format; lines and columns count from 1."""

    def __init__(self, path: Path, line: int, column: int, problem: str) -> None:
        super().__init__(path)
        self.line = line
        self.column = column
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.problem}"


class TemplateVolatilityError(TemplateError):
    """A segment uses a variable that changes more often than the segment says it does."""

    def __init__(self, path: Path, line: int, column: int, segment: str, variable: str) -> None:
        super().__init__(path)
        self.line = line
        self.column = column
        self.segment = segment
        self.variable = variable

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}:{self.column}: segment {self.segment!r} uses "
            f"{self.variable!r}, which "
            "changes more often than the segment's volatility says; move the variable to a later "
            "segment or raise the segment's volatility"
        )


class DuplicateTemplateError(TemplateError):
    """Two files claim one name@version."""

    def __init__(self, path: Path, reference: str, other: Path) -> None:
        super().__init__(path)
        self.reference = reference
        self.other = other

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.reference} is already defined by {self.other}; "
            "give one of them another version"
        )


class TemplateNotFoundError(PromptError):
    """No template of that name (or name@version)."""

    def __init__(self, reference: str, known: Sequence[str]) -> None:
        super().__init__(reference)
        self.reference = reference
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"no template {self.reference!r}; there are: {', '.join(self.known) or 'none'}"


class AgentNotFoundError(PromptError):
    """No agent of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"no agent {self.name!r}; there are: {', '.join(self.known) or 'none'}"


class VariableError(PromptError):
    """A value given to a template is at fault."""

    def __init__(self, template: str, variable: str) -> None:
        super().__init__(template, variable)
        self.template = template
        self.variable = variable


class MissingVariableError(VariableError):
    """A declared variable without a default was not given."""

    def __str__(self) -> str:
        return f"template {self.template} needs a value for {self.variable!r}"


class UnknownVariableError(VariableError):
    """A value was given for a variable that the template does not declare."""

    def __init__(self, template: str, variable: str, declared: Sequence[str]) -> None:
        super().__init__(template, variable)
        self.declared = tuple(declared)

    def __str__(self) -> str:
        names = ", ".join(self.declared) or "none"
        return f"template {self.template} has no variable {self.variable!r}; it declares: {names}"


class UnstableValueError(VariableError):
    """A value has no canonical byte form, or is not of the declared type."""

    def __init__(self, template: str, variable: str, problem: str) -> None:
        super().__init__(template, variable)
        self.problem = problem

    def __str__(self) -> str:
        return f"template {self.template}: {self.variable!r} {self.problem}"


class TokenizerNotFoundError(PromptError):
    """A model folder lacks what local rendering needs."""

    def __init__(self, path: Path, missing: str) -> None:
        super().__init__(path, missing)
        self.path = path
        self.missing = missing

    def __str__(self) -> str:
        return f"{self.path} has no {self.missing}, so prompts can't be rendered to tokens here"


class LockFileError(PromptError):
    """The lock file is damaged, or of another version of Foreword."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path = path
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: the lock file {self.problem}; take it from git again, or "
            "delete it and run `foreword lock`"
        )


class TranscriptRewriteError(PromptError):
    """A past message was given differently; `offset` is the first character that differs."""

    def __init__(self, turn: int, offset: int) -> None:
        super().__init__(turn, offset)
        self.turn = turn
        self.offset = offset

    def __str__(self) -> str:
        return (
            f"message {self.turn} differs from the transcript at character {self.offset}; past "
            f"turns can't be edited, so start a branch with fork({self.turn})"
        )


class TooManyTokensError(PromptError):
    """A text has more tokens than the limit; by how many isn't known."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the text has more than {self.limit:,} tokens"


class ChatTemplateError(PromptError):
    """The model's chat template can't be rendered here exactly as the engine would."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"the model's chat template can't be rendered locally: {self.problem}"
