"""The exact bytes of the shipped templates.

A difference is a product change: every cache of every deployment starts cold. If it is meant, the
template needs a new version; then `FOREWORD_TEST_UPDATE_GOLDEN=1 pytest FILE` writes the files.
"""

import os
from pathlib import Path

import pytest

from prompts import Message, Prompt, PromptDocument, load_templates, render, shipped_templates
from prompts.values import Value

GOLDEN = Path(__file__).parents[1] / "golden"
LIBRARY = load_templates(shipped_templates())
SAID = (
    Message(role="user", content="Hello,\r\nwho are you?"),
    Message(role="assistant", content="An assistant.\r\n"),
    Message(role="user", content="Cafe\u0301?"),
)
DOCUMENTS = (
    PromptDocument(name="prices.md", text="Adults pay 12.50.\r\nChildren pay 6.\n"),
    PromptDocument(name="“hours”.txt", text="\ufeffOpen 9 — 17.  "),
)
CASES: dict[str, tuple[str, dict[str, Value]]] = {
    "chat@1/plain": ("chat@1", {"conversation": SAID[:1]}),
    "chat@1/instructed": ("chat@1", {"conversation": SAID, "instructions": "Be brief.\n"}),
    "compact@1/instructed": ("compact@1", {"conversation": SAID[:2], "instructions": "Be brief."}),
    "docqa@2/whole": (
        "docqa@2",
        {"documents": DOCUMENTS, "pad": "\n\n(pad)", "question": "What does it cost?"},
    ),
    "docqa@2/found": (
        "docqa@2",
        {"documents": (), "excerpts": DOCUMENTS, "question": "What does it cost?"},
    ),
    "docqa@2/later": (
        "docqa@2",
        {
            "documents": DOCUMENTS[:1],
            "instructions": "Answer in French.",
            "history": SAID[:2],
            "excerpts": DOCUMENTS[1:],
            "question": "And for children?",
        },
    ),
    "tools@1/changed": (
        "tools@1",
        {"added": '{"a":1}', "altered": '{"b":2}', "returned": "c", "withdrawn": "d, e"},
    ),
    "tools@1/first": ("tools@1", {"added": '{"a":1}', "form": "<call>NAME</call>"}),
    "judge@1/case": (
        "judge@1",
        {"question": "What does it cost?", "expected": "12.50 / 12,50", "answer": "It's 12.50.\n"},
    ),
}


def shown(prompt: Prompt) -> bytes:
    lines = [f"{prompt.template} {prompt.fingerprint}"]
    for message in prompt.messages:
        lines += [f"<|{message.role}|>", message.content]
    return "\n".join(lines).encode()


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_shipped_templates_bytes_are_those_of_its_version(case: str) -> None:
    reference, values = CASES[case]
    path = GOLDEN / f"{case}.txt"
    made = shown(render(LIBRARY.find(reference), values))
    if os.environ.get("FOREWORD_TEST_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made)
    assert path.read_bytes() == made


def test_every_shipped_template_has_a_golden_file() -> None:
    assert {reference for reference, _ in CASES.values()} == {t.reference for t in LIBRARY}
