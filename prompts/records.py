"""`record`: a dataclass for values of which each request makes several.

Type checkers hold it to be frozen. At run time it isn't: a frozen dataclass sets each field through
`object.__setattr__`, which takes several times as long as making the whole of it otherwise.
"""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Slots, keywords only, equal and hashed by value."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
