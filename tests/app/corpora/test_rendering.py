"""A corpus' prefix is exactly what every CAG prompt begins with, and appending only appends."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.corpora.content import CorpusContent
from app.corpora.padding import shortest_pad
from app.corpora.rendering import build_prefix, shared_tokens, unpacked_ids
from app.corpora.values import CorpusPrefix
from prompts import (
    Message,
    PromptDocument,
    PromptTokenizer,
    Template,
    TemplateLibrary,
    load_templates,
    load_tokenizer,
    render,
    shipped_templates,
)
from prompts.render import Value
from tests.tokenizer_folders import write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

MODEL = "model"
# Texts whose last characters merge with line ends, brackets or each other, and special tokens.
AWKWARD = (
    "Prices: adults 12.50.", "ends with a line end\n", "ends with spaces   ", "</", "<!--", ">",
    "<|im_end|>", "a\n\n\n", "東京", "é", "x" * 300, "1234567", ".", " .", "\t", "}{", "-->",
)  # fmt: skip

texts = st.one_of(
    st.sampled_from(AWKWARD),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=60),
    st.integers(20, 120).map(lambda words: "The ferry leaves at nine. " * words),
)
documents = st.builds(
    PromptDocument, name=st.sampled_from(("a.txt", "b.md", "notes 7.pdf")), text=texts
)
corpora = st.lists(documents, min_size=1, max_size=5)


@pytest.fixture(scope="module")
def docqa() -> Template:
    return TemplateLibrary(load_templates(shipped_templates())).find("docqa")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("tiny")))


def content(them: list[PromptDocument]) -> CorpusContent:
    return CorpusContent(
        revision=1,
        documents=tuple(them),
        document_ids=tuple(f"doc-{i}" for i in range(len(them))),
        sources=(),
    )


def prefix_of(
    them: list[PromptDocument], docqa: Template, tokenizer: PromptTokenizer, multiple: int = 16
) -> CorpusPrefix:
    return build_prefix(content(them), docqa, tokenizer=tokenizer, model=MODEL, multiple=multiple)


def prompt_ids(
    prefix: CorpusPrefix, docqa: Template, tokenizer: PromptTokenizer, **values: Value
) -> tuple[int, ...]:
    """The ids of a request: what the gateway renders for a question."""
    shown: dict[str, Value] = {"documents": prefix.documents, **values}
    if prefix.pad:
        shown["pad"] = prefix.pad
    return tokenizer.tokenize(render(docqa, shown)).token_ids


def check_opens_every_prompt(
    prefix: CorpusPrefix, docqa: Template, tokenizer: PromptTokenizer, multiple: int
) -> None:
    ids = tuple(unpacked_ids(prefix.token_ids))
    assert prefix.tokens == len(ids)
    assert len(ids) % multiple == 0
    history = (Message(role="user", content="Hello"), Message(role="assistant", content="Yes?"))
    requests: tuple[dict[str, Value], ...] = (
        {"question": "When?"},
        {"question": "\n\n<document>"},
        {"question": "7", "instructions": "Answer in French."},
        {"question": ".", "instructions": "- be brief"},
        {"question": ">", "history": history, "instructions": ". . ."},
    )
    for request in requests:
        assert prompt_ids(prefix, docqa, tokenizer, **request)[: len(ids)] == ids


@given(corpora, st.sampled_from((1, 16, 64)))
@settings(max_examples=60)
def test_the_prefix_opens_every_prompt(
    docqa: Template, tiny: PromptTokenizer, them: list[PromptDocument], multiple: int
) -> None:
    prefix = prefix_of(them, docqa, tiny, multiple)
    check_opens_every_prompt(prefix, docqa, tiny, multiple)


@given(corpora, corpora, st.sampled_from((1, 16, 64)))
@settings(max_examples=60)
def test_appending_documents_appends_tokens(
    docqa: Template,
    tiny: PromptTokenizer,
    before: list[PromptDocument],
    added: list[PromptDocument],
    multiple: int,
) -> None:
    old = prefix_of(before, docqa, tiny, multiple)
    new = prefix_of([*before, *added], docqa, tiny, multiple)
    assert old.document_tokens is not None
    # Apart from the pad; and the last token before it may reach into what follows.
    assert shared_tokens(old.token_ids, new.token_ids) >= min(
        old.document_tokens - 1, old.tokens or 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_with_real_tokenizers_too(
    docqa: Template, real_tokenizers: RealTokenizers, model: str
) -> None:
    tokenizer = real_tokenizers.load(model)
    corpus: list[PromptDocument] = []
    old: CorpusPrefix | None = None
    for number, text in enumerate((*AWKWARD, "The ferry leaves at nine. " * 90)):
        corpus.append(PromptDocument(name=f"{number}.txt", text=text))
        new = prefix_of(corpus, docqa, tokenizer, 64)
        check_opens_every_prompt(new, docqa, tokenizer, 64)
        assert new.pad or new.tokens == new.document_tokens, model
        assert (new.tokens or 0) - (new.document_tokens or 0) < 64 + 16
        if old is not None:
            shared = shared_tokens(old.token_ids, new.token_ids)
            assert shared >= min((old.document_tokens or 0) - 1, old.tokens or 0)
        old = new


def test_equal_documents_make_equal_prefixes(docqa: Template, tiny: PromptTokenizer) -> None:
    them = [PromptDocument(name="a.txt", text=text) for text in AWKWARD]
    one, other = (prefix_of(list(them), docqa, tiny) for _ in range(2))
    assert one == other
    assert prefix_of(them, docqa, tiny, 64).address != one.address


def test_without_a_tokenizer_there_are_no_figures(docqa: Template) -> None:
    them = [PromptDocument(name="a.txt", text="one")]
    prefix = build_prefix(content(them), docqa, tokenizer=None, model=MODEL, multiple=16)
    assert (prefix.tokens, prefix.pad, prefix.token_ids) == (None, "", b"")


@given(st.integers(1, 300), st.integers(0, 400), st.integers(1, 3), st.integers(0, 12))
def test_the_pad_reaches_a_boundary_whatever_a_dot_costs(
    multiple: int, bare: int, per_dot: int, frame: int
) -> None:
    def tokens_with(dots: int) -> int:
        return bare + frame + per_dot * dots

    found = shortest_pad(multiple, tokens_with)
    assert found is not None
    dots, tokens = found
    assert tokens % multiple == 0
    assert bare + frame <= tokens < bare + frame + multiple
    assert tokens <= tokens_with(dots) < tokens + per_dot


def test_dots_that_add_nothing_make_no_pad() -> None:
    assert shortest_pad(16, lambda _dots: 17) is None


def test_packed_ids_are_compared_by_whole_ids(tmp_path: Path) -> None:
    assert shared_tokens(b"\1\0\0\0\2\0\0\0", b"\1\0\0\0\2\0\0\1") == 1


def test_a_document_that_is_added_is_all_that_is_encoded(docqa: Template, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path / "tiny"))
    them = [PromptDocument(name=f"{i}.txt", text=f"Ferry {i} leaves. " * 400) for i in range(8)]
    prefix_of(them, docqa, tokenizer)
    before = tokenizer.cache.held_tokens
    prefix_of([*them, PromptDocument(name="9.txt", text="A note.")], docqa, tokenizer)
    assert tokenizer.cache.held_tokens - before < before / 8
