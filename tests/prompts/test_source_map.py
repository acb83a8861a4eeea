"""From a segment's text back to the bytes of its file."""

from pathlib import Path

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from prompts.source_map import SourceMap
from prompts.yaml_nodes import compose

LINES = st.lists(st.text("ab é'\"\\:#{}-\t", max_size=8), min_size=1, max_size=5)


def scalar(file: str) -> yaml.ScalarNode:
    """The value of the one key of a file."""
    root = compose(Path("t.yaml"), file)
    assert isinstance(root, yaml.MappingNode)
    node = root.value[0][1]
    assert isinstance(node, yaml.ScalarNode)
    return node


def written(text: str, style: str, width: int) -> str:
    return yaml.dump({"text": text}, default_style=style, allow_unicode=True, width=width)


@given(lines=LINES, style=st.sampled_from(["|", "'", '"', ""]), width=st.sampled_from([8, 1000]))
@example(lines=["a\\n", "", "b"], style='"', width=8)
def test_each_character_is_found_or_is_part_of_an_escape(
    lines: list[str], style: str, width: int
) -> None:
    file = written("\n".join(lines), style, width)
    node = scalar(file)
    places = SourceMap(file, node)
    data = file.encode()
    for offset, character in enumerate(node.value):
        position = places.position(offset)
        found = data[position.byte :].decode()[0]
        assert found == character or found in ("\\", "'", "\n", " ")
        line = file.split("\n")[position.line - 1]
        assert (line + "\n")[position.column - 1] == found


@given(
    lines=LINES,
    style=st.sampled_from(["|", "'", '"']),
    width=st.sampled_from([8, 1000]),
    cut=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    put=st.text("xé'\"\\", max_size=3),
)
def test_an_edit_of_the_file_is_that_edit_of_the_text(
    lines: list[str], style: str, width: int, cut: tuple[int, int], put: str
) -> None:
    file = written("\n".join(lines), style, width)
    node = scalar(file)
    places = SourceMap(file, node)
    text = node.value
    start, stop = sorted(min(offset, len(text)) for offset in cut)
    span, spelled = places.bytes_of(start, stop), places.spell(put)
    if span is None or spelled is None:
        return
    data = file.encode()
    edited = data[: span[0]] + spelled.encode() + data[span[1] :]
    expected = text[:start] + put + text[stop:]
    # A quoted scalar drops blanks at a fold, so only edits away from them are exact.
    if node.style == "|" or not set("\n \t") & set(text[max(0, start - 1) : stop + 1]):
        assert scalar(edited.decode()).value == expected


def test_lines_with_carriage_returns_are_counted_once() -> None:
    file = "text: |\r\n  one\r\n  two\r\n"
    places = SourceMap(file, scalar(file))
    assert (places.position(4).line, places.position(4).column) == (3, 3)
    assert file.encode()[slice(*places.bytes_of(3, 4) or ())] == b"\r\n  "


def test_a_folded_block_is_placed_as_a_whole() -> None:
    file = "text: >\n  one\n  two\n"
    places = SourceMap(file, scalar(file))
    assert places.position(5).line == 1
    assert places.bytes_of(4, 5) is None
    assert places.spell("x") is None


def test_what_a_style_cannot_hold_is_not_spelled() -> None:
    double, single, plain = (SourceMap(file, scalar(file)) for file in ('a: "x"', "a: 'x'", "a: x"))
    assert double.spell('"\n\u200b') == '\\"\\n\\u200b'
    assert single.spell("it's") == "it''s"
    assert single.spell("\n") is None
    assert plain.spell("# no") is None
