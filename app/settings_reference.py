"""`docs/settings.md`, from the settings themselves (`python -m app.settings_reference`)."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.settings import Settings

_HEAD = """\
# Settings

Made by `python -m app.settings_reference`. Environment variables win over `foreword.toml` in the
working folder, where `FOREWORD_ENGINE__URL` is `url` under `[engine]`. `foreword up` sets what its
own parts need.

| variable | default | meaning |
|---|---|---|
"""


def settings_reference() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_rows(Settings, "FOREWORD_")) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _rows(kind, f"{prefix}{name.upper()}__")
        else:
            yield f"| `{prefix}{name.upper()}` | {_default(field)} | {field.description or ''} |"


def _default(field: FieldInfo) -> str:
    match field.default:
        case None:
            return "none"
        case Path() as path:
            return f"`{path}`"
        case tuple() as items:
            words = ", ".join(str(i.value if isinstance(i, Enum) else i) for i in items)
            return f"`{words}`" if words else "none"
        case value:
            return f"`{value}`"


if __name__ == "__main__":
    click.echo(settings_reference(), nl=False)
