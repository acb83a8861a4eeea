"""A folder of template files: look-up by `name` (newest version) or `name@version`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from prompts.errors import DuplicateTemplateError, TemplateNotFoundError
from prompts.template import Template
from prompts.template_file import parse_template


class TemplateLibrary:
    """Parsed templates, at most one body for each `name@version`."""

    def __init__(self, templates: Iterable[Template]) -> None:
        """Raises DuplicateTemplateError for the second template of one reference."""
        self._by_reference: dict[str, Template] = {}
        self._newest: dict[str, Template] = {}
        for template in templates:
            other = self._by_reference.setdefault(template.reference, template)
            if other is not template:
                raise DuplicateTemplateError(template.path, template.reference, other.path)
            newest = self._newest.get(template.name)
            if newest is None or template.version > newest.version:
                self._newest[template.name] = template

    def __iter__(self) -> Iterator[Template]:
        return iter(sorted(self._by_reference.values(), key=lambda t: (t.name, t.version)))

    def find(self, reference: str) -> Template:
        """The template called `name` or `name@version`.

        Raises:
            TemplateNotFoundError: none is.
        """
        template = self._by_reference.get(reference) or self._newest.get(reference)
        if template is None:
            raise TemplateNotFoundError(reference, sorted(self._by_reference))
        return template


def load_templates(folder: Path) -> TemplateLibrary:
    """All `*.yaml` and `*.yml` files of a folder, in the order of their names.

    Raises:
        TemplateError: a file is at fault.
    """
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    return TemplateLibrary(parse_template(path, path.read_bytes()) for path in paths)


def shipped_templates() -> Path:
    """The folder of the templates that come with Foreword."""
    return Path(__file__).parent / "templates"
