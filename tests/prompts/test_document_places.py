"""Documents are found where a template prints them, and nowhere else."""

from pathlib import Path

import pytest

from prompts import PromptDocument, parse_template, render
from prompts.segments import RenderedSegment

DOCUMENTS = [
    PromptDocument(name="tides.md", text="Low at noon."),
    PromptDocument(name="tides.md", text="High at six."),
    PromptDocument(name="boats.md", text="The ferry is red."),
]


def rendered(body: str, documents: list[PromptDocument] | None = None) -> RenderedSegment:
    source = f"""name: t
version: 1
variables:
  documents: {{type: documents, volatility: collection}}
segments:
  - {{id: documents, role: user, volatility: collection, text: "{body}"}}
"""
    template = parse_template(Path("t.yaml"), source.encode())
    (segment,) = render(template, {"documents": documents or DOCUMENTS}).segments
    return segment


@pytest.mark.parametrize(
    ("body", "opening"),
    [
        ("{% for d in documents %}\\n# {{ d.name }}\\n{{ d.text }}\\n{% endfor %}", "{name}\n"),
        ("Read:{% for d in documents %}\\n{{ d.text }}{% endfor %}", ""),
        (
            "{% for d in documents %}[{{ loop.index }}] {{ d.text }} ({{ d.name }})\\n{% endfor %}",
            "",
        ),
        ("{% for d in documents %}{{ d.text | trim }}\\n{% endfor %}", ""),
        ("{% for d in documents %}{{ d.name | upper }}: {{ d.text }}\\n{% endfor %}", ""),
    ],
)
def test_each_document_lies_from_its_name_to_the_end_of_its_text(body: str, opening: str) -> None:
    segment = rendered(body)
    assert [place.name for place in segment.documents] == [d.name for d in DOCUMENTS]
    for place, document in zip(segment.documents, DOCUMENTS, strict=True):
        shown = segment.text[place.start : place.stop]
        assert shown == opening.format(name=document.name) + document.text


def test_a_list_of_names_first_is_not_taken_for_documents() -> None:
    body = (
        "{% for d in documents %}- {{ d.name }}\\n{% endfor %}"
        "{% for d in documents %}{{ d.text }}\\n{% endfor %}"
    )
    first = rendered(body, DOCUMENTS[1:]).documents[0]
    assert first.stop - first.start == len(DOCUMENTS[1].text)


def test_documents_that_a_template_leaves_out_have_no_place() -> None:
    segment = rendered("{{ documents[1].text }}")
    assert [place.start for place in segment.documents] == [0]


def test_text_that_a_filter_rewrote_is_not_found() -> None:
    assert rendered("{% for d in documents %}{{ d.text | upper }}{% endfor %}").documents == ()
