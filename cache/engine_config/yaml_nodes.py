"""YAML as nodes that know where they are in the file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from cache.engine_config.view import Written
from cache.errors import EngineConfigError
from prompts.lint.source_file import SourceFile

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A node of one document of a file. Aliases are followed, merges (`<<`) are done."""

    source: SourceFile
    node: yaml.Node

    @property
    def at(self) -> Written:
        """Its characters, without the quotes of a scalar and the blanks behind a block."""
        start, stop = self.node.start_mark.index, self.node.end_mark.index
        text = self.source.text[start:stop]
        stop = start + len(text.rstrip())
        if isinstance(self.node, yaml.ScalarNode) and self.node.style in _QUOTES:
            start, stop = start + 1, stop - 1
        return Written(source=self.source, start=start, stop=max(start, stop))

    @property
    def text(self) -> str | None:
        """A scalar's text, None for null and for what is no scalar."""
        if not isinstance(self.node, yaml.ScalarNode):
            return None
        is_null = self.node.tag == "tag:yaml.org,2002:null"
        return None if is_null else str(self.node.value)

    @property
    def items(self) -> list["YamlNode"]:
        """A sequence's nodes."""
        if not isinstance(self.node, yaml.SequenceNode):
            return []
        return [self._of(node) for node in self.node.value]

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def entries(self) -> Mapping[str, "YamlNode"]:
        """A mapping's values by their keys."""
        return {key.text or "": value for key, value in self.pairs}

    @property
    def pairs(self) -> Iterator[tuple["YamlNode", "YamlNode"]]:
        """A mapping's keys and values; what is merged in comes first, so that own keys win."""
        yield from self._pairs(frozenset())

    def _pairs(self, seen: frozenset[int]) -> Iterator[tuple["YamlNode", "YamlNode"]]:
        if not isinstance(self.node, yaml.MappingNode) or id(self.node) in seen:
            return
        own: list[tuple[YamlNode, YamlNode]] = []
        for key, value in self.node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == "<<":
                merged = self._of(value)
                for each in merged.items or [merged]:
                    yield from each._pairs(seen | {id(self.node)})
            else:
                own.append((self._of(key), self._of(value)))
        yield from own

    def get(self, *path: str) -> "YamlNode | None":
        """The node under a path of keys."""
        found: YamlNode | None = self
        for key in path:
            found = found.entries.get(key) if found is not None else None
        return found

    def value(self, key: str) -> str | None:
        """The text of a mapping's entry."""
        found = self.get(key)
        return found.text if found is not None else None

    def _of(self, node: yaml.Node) -> "YamlNode":
        return YamlNode(source=self.source, node=node)


def documents(source: SourceFile) -> list[YamlNode]:
    """The roots of a file's documents, empty ones left out.

    Raises:
        EngineConfigError: the file is no YAML.
    """
    try:
        roots = list(yaml.compose_all(source.text, Loader=_Loader))
    except RecursionError as error:
        raise EngineConfigError(path=source.path, reason="it is nested too deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is no YAML"
        if "undefined alias" in problem:  # its name may be a password that begins with *
            problem = "an alias has no anchor; put text that begins with * in quotes"
        raise EngineConfigError(path=source.path, reason=f"{where}{problem}") from error
    return [YamlNode(source=source, node=root) for root in roots if root is not None]
