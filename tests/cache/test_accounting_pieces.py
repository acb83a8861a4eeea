"""Pieces lie exactly where the tokenizer, run on the whole text, puts their characters."""

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from cache.accounting import Piece, pieces_of
from prompts import (
    Message,
    PromptDocument,
    PromptTokenizer,
    TokenizedPrompt,
    Volatility,
    canonical_tools,
    load_templates,
    load_tokenizer,
    parse_template,
    render,
    shipped_templates,
)
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

DOCQA = load_templates(shipped_templates()).find("docqa")
CHAT = load_templates(shipped_templates()).find("chat")
TRIMMED = parse_template(
    Path("trimmed.yaml"),
    b"""name: trimmed
version: 1
variables:
  documents: {type: documents, volatility: collection}
  question: {type: text, volatility: turn}
segments:
  - id: documents
    role: user
    volatility: collection
    text: "Read:{% for d in documents %}\\n{{ d.text | trim }}{% endfor %}"
  - {id: question, role: user, volatility: turn, text: "\\n{{ question }}"}
""",
)
TOOL = {
    "type": "function",
    "function": {"name": "search", "description": "Finds.", "parameters": {"type": "object"}},
}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
names = st.text("abc .-é", min_size=1, max_size=8)
documents = st.lists(st.builds(PromptDocument, name=names, text=texts), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("model"), chat_template=CHATML_TOOLS)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PromptTokenizer:
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def whole(folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def starts_of(
    whole: tokenizers.Tokenizer, tokenizer: PromptTokenizer, made: TokenizedPrompt
) -> tuple[str, list[int]]:
    """The whole text, and the character at which each token starts."""
    text = tokenizer.chat.render(made.prompt.messages, made.prompt.tools)
    encoding = whole.encode(text, add_special_tokens=False)
    assert encoding.ids == list(made.token_ids)
    return text, [start for start, _ in encoding.offsets]


@given(docs=documents, question=texts)
def test_documents_lie_where_the_whole_text_has_them(
    docs: list[PromptDocument],
    question: str,
    tokenizer: PromptTokenizer,
    whole: tokenizers.Tokenizer,
) -> None:
    made = tokenizer.tokenize(render(DOCQA, {"documents": docs, "question": question}))
    text, starts = starts_of(whole, tokenizer, made)
    found = [piece for piece in pieces_of(made) if piece.document is not None]
    # What the template prints is canonical, and so are the places that it was printed at.
    (segment,) = [s for s in made.prompt.segments if s.id == "documents"]
    offset = text.index(segment.text)
    assert [place.name for place in segment.documents] == [piece.document for piece in found]
    for piece, place in zip(found, segment.documents, strict=True):
        assert piece.start == bisect_left(starts, offset + place.start)
        assert piece.own_stop == bisect_left(starts, offset + place.stop)
        shown = segment.text[place.start : place.stop]
        assert shown.startswith(place.name)


@given(said=st.lists(texts, min_size=1, max_size=5))
def test_messages_lie_where_the_whole_text_has_them(
    said: list[str], tokenizer: PromptTokenizer, whole: tokenizers.Tokenizer
) -> None:
    roles = ("user", "assistant")  # the user has the last word
    talk = [
        Message(role=roles[(len(said) - 1 - n) % 2], content=text) for n, text in enumerate(said)
    ]
    made = tokenizer.tokenize(render(CHAT, {"conversation": talk}))
    text, starts = starts_of(whole, tokenizer, made)
    found = [piece for piece in pieces_of(made) if piece.message]
    shown = made.prompt.messages[-len(talk) :]
    position = 0
    for piece, message in zip(found, shown, strict=True):
        opening = f"<|im_start|>{message.role}\n"
        position = text.index(opening + message.content, position) + len(opening)
        assert piece.start == bisect_left(starts, position)
        assert piece.stop == bisect_left(starts, position + len(message.content))


@given(docs=documents, said=st.lists(texts, max_size=3))
def test_pieces_come_in_order_and_never_overlap(
    docs: list[PromptDocument], said: list[str], tokenizer: PromptTokenizer
) -> None:
    talk = [Message(role="user", content=text) for text in said]
    values = {"documents": docs, "instructions": "Be kind.", "history": talk, "question": "Why?"}
    made = tokenizer.tokenize(render(DOCQA, values))
    last = 0
    for piece in pieces_of(made):
        assert last <= piece.start < piece.stop <= len(made.token_ids)
        assert piece.start <= piece.own_stop <= piece.stop
        last = piece.stop


@given(docs=documents)
def test_a_document_has_one_digest_wherever_it_stands(
    docs: list[PromptDocument], tokenizer: PromptTokenizer
) -> None:
    named = [replace(d, name=f"{n}.md") for n, d in enumerate(docs)]
    one = tokenizer.tokenize(render(DOCQA, {"documents": named, "question": "Why?"}))
    other = tokenizer.tokenize(render(DOCQA, {"documents": named[::-1], "question": "When?"}))
    assert digests(one) == digests(other)


def digests(made: TokenizedPrompt) -> dict[str | None, bytes]:
    return {p.document: p.digest for p in pieces_of(made) if p.document is not None}


def test_tools_are_a_piece_of_their_own(tokenizer: PromptTokenizer) -> None:
    prompt = render(CHAT, {"conversation": [Message(role="user", content="Hello")]})
    made = tokenizer.tokenize(
        replace(prompt, tools=canonical_tools([TOOL]), tools_volatility=Volatility.SESSION)
    )
    first = pieces_of(made)[0]
    assert (first.segment, first.volatility) == ("tools", Volatility.SESSION)
    assert '"search"' in tokenizer.decode(made.token_ids[first.start : first.stop])


def test_a_trimmed_document_is_searched_for(tokenizer: PromptTokenizer) -> None:
    docs = [PromptDocument(name="a", text="  Ferry.  "), PromptDocument(name="b", text="Storm.")]
    made = tokenizer.tokenize(render(TRIMMED, {"documents": docs, "question": "Why?"}))
    found = {p.document: p for p in pieces_of(made) if p.document is not None}
    assert list(found) == ["a", "b"]
    assert text_of(tokenizer, made, found["a"]).strip() == "Ferry."


def text_of(tokenizer: PromptTokenizer, made: TokenizedPrompt, piece: Piece) -> str:
    return tokenizer.decode(made.token_ids[piece.start : piece.own_stop])


def test_pieces_that_were_seen_before_are_the_same_objects(tokenizer: PromptTokenizer) -> None:
    docs = [PromptDocument(name="a", text="Ferry."), PromptDocument(name="b", text="Storm.")]
    one, other = (
        tokenizer.tokenize(render(DOCQA, {"documents": docs, "question": question}))
        for question in ("Why?", "When?")
    )
    ours, theirs = pieces_of(one), pieces_of(other)
    assert all(a is b for a, b in zip(ours[:-1], theirs[:-1], strict=True))
    assert ours[-1] != theirs[-1]


def test_packed_ids_are_the_token_ids(tokenizer: PromptTokenizer) -> None:
    made = tokenizer.tokenize(render(CHAT, {"conversation": [Message(role="user", content="Hi")]}))
    assert tuple(memoryview(made.packed).cast("I")) == made.token_ids


def test_without_a_layout_segments_are_the_pieces(tokenizer: PromptTokenizer) -> None:
    made = tokenizer.tokenize(render(CHAT, {"conversation": [Message(role="user", content="Hi")]}))
    bare = replace(made, layout=None)
    assert [(p.segment, p.start, p.stop) for p in pieces_of(bare)] == [
        (r.segment.id, r.start, r.stop) for r in made.ranges
    ]
