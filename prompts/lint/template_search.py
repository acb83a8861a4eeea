"""Where a gateway may have an agent's template from: files that are linted, that ship, or lie near.

A gateway has the templates of one folder beside those that ship, and which folder that is stands in
its settings. So a name may mean several templates here.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from prompts.errors import TemplateError, TemplateNotFoundError
from prompts.library import TemplateLibrary, shipped_templates
from prompts.lint.source_file import SourceFile
from prompts.template import Template
from prompts.template_file import parse_template

SEGMENTS = re.compile(rb"^segments[ \t]*:", re.MULTILINE)
_MOST_BYTES = 2**20


class TemplateSearch:
    """Looks for the templates that agents of one folder name.

    Args:
        folder: the agents' one.
        linted: templates that are linted in the same run.
    """

    def __init__(self, folder: Path, linted: Iterable[Template]) -> None:
        self._folder = folder
        self._linted = list(linted)

    def named(self, reference: str) -> Iterator[Template]:
        """The templates that a reference may mean, one for each folder that a gateway may have.

        None: none that is linted, ships, or can be found here has that name. Those of the disk are
        only read where somebody asks on.
        """
        yield from _found(self._own, reference)
        for library in _by_folder(self._linted, self._own):
            yield from _found(library, reference)
        for library in self._near:
            yield from _found(library, reference)

    @property
    def shipped(self) -> list[str]:
        """References of those that come with Foreword."""
        return [template.reference for template in self._own]

    @cached_property
    def _own(self) -> TemplateLibrary:
        return TemplateLibrary(_templates_in(shipped_templates()))

    @cached_property
    def _near(self) -> list[TemplateLibrary]:
        """Those of folders that settings name, or that lie beside the agents'."""
        beside: list[Path] = []
        with suppress(OSError):
            beside = sorted(path for path in self._folder.parent.iterdir() if path.name[0] != ".")
        near = dict.fromkeys([*_set_folders(self._folder), self._folder.parent, *beside])
        return _by_folder((each for path in near for each in _templates_in(path)), self._own)


def yaml_files(folder: Path) -> Iterator[SourceFile]:
    """The YAML files of a folder, in the order in which a gateway reads them; those that can be."""
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        # A folder may not be open to us, and a YAML file be anything.
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                yield SourceFile(path, path.read_bytes())


def _templates_in(folder: Path) -> Iterator[Template]:
    for source in yaml_files(folder):
        if SEGMENTS.search(source.data):
            with suppress(TemplateError):
                yield parse_template(source.path, source.data, checked=False)


def _set_folders(folder: Path) -> list[Path]:
    """`FOREWORD_TEMPLATES`, or `templates` of the nearest foreword.toml."""
    if named := os.environ.get("FOREWORD_TEMPLATES"):
        return [Path(named).expanduser()]
    for parent in (folder, *folder.parents):
        with suppress(OSError, ValueError):
            table = tomllib.loads((parent / "foreword.toml").read_text("utf-8"))
            if isinstance(found := table.get("templates"), str):
                return [parent / Path(found).expanduser()]
    return []


def _by_folder(templates: Iterable[Template], own: TemplateLibrary) -> list[TemplateLibrary]:
    """What a gateway has that is given each of the folders, beside its `own`."""
    folders: dict[Path, dict[str, Template]] = {}
    for template in templates:
        folder = folders.setdefault(template.path.parent.resolve(), {})
        folder.setdefault(template.reference, template)
    return [
        TemplateLibrary(({each.reference: each for each in own} | folder).values())
        for folder in folders.values()
    ]


def _found(library: TemplateLibrary, reference: str) -> Iterator[Template]:
    with suppress(TemplateNotFoundError):
        yield library.find(reference)
