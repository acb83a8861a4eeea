"""From documents to the token ids that every CAG prompt of a collection begins with. Pure."""

from array import array
from collections.abc import Iterator

from app.corpora.content import CorpusContent, content_address
from app.corpora.padding import PAD, corpus_padding
from app.corpora.values import CorpusPrefix
from prompts import (
    PromptTokenizer,
    Template,
    VariableType,
    Volatility,
    render,
)
from prompts.render import Value
from prompts.shared_length import shared_length

_ID_BYTES = 4
_QUESTION = "What?"


def build_prefix(
    content: CorpusContent,
    template: Template,
    *,
    tokenizer: PromptTokenizer | None,
    model: str,
    multiple: int,
) -> CorpusPrefix:
    """The prefix of a corpus; without a tokenizer its tokens aren't known.

    Args:
        multiple: tokens of a chunk of the tiers, or of a page where there are none.

    Raises:
        PromptError: a document can't be rendered, or the chat template refuses the messages.
    """
    values: dict[str, Value] = dict.fromkeys(_documents_of(template), content.documents)
    bare = render(template, {**values, "question": _QUESTION})
    identity = tokenizer.identity if tokenizer else "unknown"
    made_by = (template.reference, bare.fingerprint, model, identity, str(multiple))
    address = content_address(content, made_by)
    if tokenizer is None:
        return CorpusPrefix(
            address=address,
            documents=content.documents,
            sources=content.sources,
            pad="",
            tokens=None,
            document_ids=content.document_ids,
        )
    padding = corpus_padding(tokenizer, template, values, multiple=multiple)
    padded = {**values, PAD: padding.text} if padding.text else values
    prompt = tokenizer.tokenize(render(template, {**padded, "question": _QUESTION}))
    return CorpusPrefix(
        address=address,
        documents=content.documents,
        sources=content.sources,
        pad=padding.text,
        tokens=padding.tokens,
        document_tokens=padding.bare_tokens,
        token_ids=prompt.packed[: padding.tokens * _ID_BYTES],
        document_ids=content.document_ids,
    )


def unpacked_ids(packed: bytes) -> list[int]:
    """The ids that `CorpusPrefix.token_ids` holds."""
    return array("I", packed).tolist()


def shared_tokens(first: bytes, other: bytes) -> int:
    """Leading ids that two packed prefixes share."""
    return shared_length(first, other) // _ID_BYTES


def _documents_of(template: Template) -> Iterator[str]:
    """The template's documents that change with the collection alone."""
    for name, variable in template.variables.items():
        if variable.type is VariableType.DOCUMENTS and variable.volatility <= Volatility.COLLECTION:
            yield name
