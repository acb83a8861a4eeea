"""A prompt in the tokens that the engine holds: the same text, and every place still right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.accounting_pieces import pieces_of
from prompts import (
    Message,
    PromptDocument,
    PromptTokenizer,
    Transcript,
    load_templates,
    render,
    shipped_templates,
    with_held_ids,
)
from tests.tokenizer_packages import MODELS, RealTokenizers

docqa = next(t for t in load_templates(shipped_templates()) if t.name == "docqa")
words = st.text(alphabet="abc dé\n.1<", min_size=1, max_size=20).map(lambda t: f"x{t.strip()}y")


def letter_by_letter(tokenizer: PromptTokenizer, text: str) -> list[int]:
    return [i for letter in text for i in tokenizer.encoder.encode(letter).ids]


@pytest.mark.parametrize("model", ["smollm2", "qwen3", "llama3_1"])
@settings(max_examples=20)
@given(said=words, question=words, document=words)
def test_an_answer_in_other_tokens_leaves_all_places_right(
    real_tokenizers: RealTokenizers, model: str, said: str, question: str, document: str
) -> None:
    tokenizer = real_tokenizers.load(model)
    shown = (PromptDocument(name="a.md", text=document),)
    values = {"documents": (), "excerpts": shown, "question": question}
    first = render(docqa, values)
    output = letter_by_letter(tokenizer, said)
    later = render(
        docqa,
        values | {"history": (first.messages[-1], Message(role="assistant", content=said))},
    )
    transcript = Transcript.start(tokenizer, first.messages).answer(output).follow(later.messages)
    usual = tokenizer.tokenize(later)
    held = with_held_ids(usual, transcript.token_ids)
    assert held is not None
    assert held.token_ids == transcript.token_ids
    assert tokenizer.decode(held.token_ids) == tokenizer.decode(usual.token_ids)
    ours, theirs = pieces_of(held), pieces_of(usual)
    assert [p.document for p in ours] == [p.document for p in theirs]
    for one, other in zip(ours, theirs, strict=True):
        text = tokenizer.decode(held.token_ids[one.start : one.stop])
        assert text == tokenizer.decode(usual.token_ids[other.start : other.stop])
    for part, other in zip(held.ranges, usual.ranges, strict=True):
        assert tokenizer.decode(held.token_ids[part.start : part.stop]) == tokenizer.decode(
            usual.token_ids[other.start : other.stop]
        )


@pytest.mark.parametrize("model", MODELS)
def test_ids_of_another_prompt_are_refused(real_tokenizers: RealTokenizers, model: str) -> None:
    tokenizer = real_tokenizers.load(model)
    prompt = tokenizer.tokenize(render(docqa, {"documents": (), "question": "Why?"}))
    assert with_held_ids(prompt, prompt.token_ids) is prompt
    first = next(i for i, token in enumerate(prompt.token_ids) if token in tokenizer.control)
    without = prompt.token_ids[:first] + prompt.token_ids[first + 1 :]
    assert with_held_ids(prompt, without) is None
    assert with_held_ids(prompt, prompt.token_ids[: first + 2]) is None
