"""A stem that grew by a turn makes the prompts that the whole conversation makes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cache.accounting import pieces_of
from prompts import (
    Message,
    PromptTokenizer,
    TokenizedPrompt,
    Transcript,
    Turn,
    canonical_text,
    grown,
    load_templates,
    load_tokenizer,
    render,
    shipped_templates,
    stem_of,
    token_digest,
    with_held_ids,
)
from prompts.errors import ChatTemplateError, TranscriptRewriteError
from prompts.stem_growth import Grown
from tests.prompts.test_stems import ASKS, BARE, TRIMS, TWICE
from tests.prompts.test_token_seams import fragments
from tests.tokenizer_folders import CHATML, CHATML_TOOLS, write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

CHAT = load_templates(shipped_templates()).find("chat")
# What an answer of a thinking model is cut to once a question follows.
THINKS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and '</think>' in m['content'] %}"
    "{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
# The number of messages is told in front: all moves when some are added.
COUNTS = "{{ messages | length }} messages\n" + CHATML
contents = st.lists(fragments, min_size=1, max_size=5).map("".join).map(canonical_text)
talks = st.lists(st.tuples(contents, contents), max_size=2)
# Every how many characters an answer is cut before it is encoded, and whether it has a stop token.
spellings = st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=3)
shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)


def _prompt(
    tokenizer: PromptTokenizer, instructions: str, conversation: list[Message]
) -> TokenizedPrompt:
    values = {"conversation": tuple(conversation)} | (
        {"instructions": instructions} if instructions else {}
    )
    return tokenizer.tokenize(render(CHAT, values))


def _spelled(
    tokenizer: PromptTokenizer, text: str, every: int, *, stopped: bool
) -> tuple[int, ...]:
    """The text's ids, as a model may choose them."""
    ids: list[int] = []
    for start in range(0, len(text), every):
        part = text[start : start + every]
        ids += tokenizer.encoder.encode(part, add_special_tokens=False).ids
    if stopped and "<|im_end|>" in set(tokenizer.control):
        ids.append(tokenizer.control.id_of("<|im_end|>"))
    return tuple(ids)


def _check(
    tokenizer: PromptTokenizer,
    instructions: str,
    said: list[tuple[str, str]],
    last: str,
    spelled: list[tuple[int, bool]] | None,
) -> Grown | None:
    """Let a stem grow by one turn after another, and compare it with the whole each time.

    Where it doesn't grow, the whole prompt's stem goes on. Returns how it grew last.
    """
    asked = [question for question, _ in said] + [last]
    conversation = [Message(role="user", content=asked[0])]
    found: Grown | None = None
    try:
        sent = _prompt(tokenizer, instructions, conversation)
        stem = stem_of(tokenizer, sent)
        transcript = Transcript.start(tokenizer, sent.prompt.messages)
        for number, (question, answer) in enumerate(said):
            ids = None
            if spelled is not None:
                every, stopped = spelled[number] if number < len(spelled) else (100, False)
                ids = _spelled(tokenizer, answer, every, stopped=stopped)
            found = grown(stem, Turn(question, answer, asked[number + 1], ids)) if stem else None
            conversation.append(Message(role="assistant", content=answer))
            conversation.append(Message(role="user", content=asked[number + 1]))
            expected = _prompt(tokenizer, instructions, conversation)
            held = (*sent.token_ids, *(ids or ()))
            if ids is None or expected.token_ids[: len(held)] == held:
                transcript = Transcript.start(tokenizer, expected.prompt.messages)
            else:
                transcript = transcript.answer(ids, conversation[-2])
                transcript = transcript.follow(expected.prompt.messages)
                assert transcript.inherent is None or found is None
                in_own = with_held_ids(expected, transcript.token_ids)
                assert in_own is not None or found is None
                expected = in_own or expected
            sent = expected
            stem = found.stem if found is not None else stem_of(tokenizer, expected)
            if stem is not None:
                _compare(stem.prompt_with(expected.prompt.messages[-1].content), expected)
    except (ChatTemplateError, TranscriptRewriteError):
        assume(False)
    return found


def _compare(made: TokenizedPrompt | None, expected: TokenizedPrompt) -> None:
    if made is None:
        return
    assert made.stem is not None
    assert made == expected
    assert made.prompt.messages == expected.prompt.messages
    assert made.packed == expected.packed
    assert made.packed.startswith(made.stem.packed)
    assert made.layout is not None
    assert expected.layout is not None
    assert made.layout.segments == expected.layout.segments
    # Within an answer in the model's own tokens, places are exact in the one, guessed in the other.
    spans = [(*span[:2], span.encoded and span.encoded.packed) for span in expected.layout.spans]
    assert [(*s[:2], s.encoded and s.encoded.packed) for s in made.layout.spans] == spans
    assert list(made.layout.characters) == list(expected.layout.characters)
    for _ in range(2):  # the second time, from what was noted with the stem
        assert pieces_of(made) == pieces_of(expected)
    assert made.digest == token_digest(expected.token_ids)
    assert made.prompt.fingerprint == expected.prompt.fingerprint


@pytest.fixture(
    scope="module", params=[CHATML, TRIMS, BARE, ASKS, TWICE, CHATML_TOOLS, THINKS, COUNTS]
)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("model"), chat_template=request.param)


@shared
@given(
    instructions=st.one_of(st.just(""), contents),
    said=talks,
    last=contents,
    spelled=st.one_of(st.none(), spellings),
)
def test_templates_of_all_kinds(
    instructions: str,
    said: list[tuple[str, str]],
    last: str,
    spelled: list[tuple[int, bool]] | None,
    small: Path,
) -> None:
    _check(load_tokenizer(small), instructions, said, last, spelled)


@pytest.mark.slow  # five real tokenizers
@pytest.mark.parametrize("model", MODELS)
def test_real_models(model: str, real_tokenizers: RealTokenizers) -> None:
    tokenizer = real_tokenizers.load(model)

    @shared
    @given(
        instructions=contents,
        said=talks,
        last=contents,
        spelled=st.one_of(st.none(), spellings),
    )
    def check(
        instructions: str,
        said: list[tuple[str, str]],
        last: str,
        spelled: list[tuple[int, bool]] | None,
    ) -> None:
        _check(tokenizer, instructions, said, last, spelled)

    check()
    talk = [("Hello", "Hi there!"), ("And?", "Nothing else.")]
    assert _check(tokenizer, "Be brief.", talk, "Thanks", None) is not None


@pytest.mark.parametrize("template", [CHATML, TRIMS, ASKS])
@pytest.mark.parametrize("stopped", [True, False])
def test_an_answer_keeps_its_own_ids(tmp_path: Path, template: str, stopped: bool) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=template))
    talk = [("Hello", "The quick brown hen"), ("And?", "jumps over the dog")]
    found = _check(tokenizer, "Be brief.", talk, "Thanks", [(1, stopped), (2, stopped)])
    assert found is not None
    assert found.holds_own


@pytest.mark.parametrize("template", [TWICE, COUNTS])
def test_what_moves_the_beginning_is_not_grown(tmp_path: Path, template: str) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=template))
    assert _check(tokenizer, "Be brief.", [("Hello", "Hi!")], "Thanks", None) is None


def test_an_answer_that_the_template_cuts_is_not_grown(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=THINKS))
    talk = [("Hello", "<think>hm</think>Hi!")]
    assert _check(tokenizer, "Be brief.", talk, "Thanks", [(100, False)]) is None


def test_what_is_as_true_of_a_longer_beginning_is_kept(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=CHATML))
    stem = stem_of(tokenizer, _prompt(tokenizer, "Be brief.", [Message(role="user", content="a")]))
    assert stem is not None
    stem.notes["one"] = stem.lasting["other"] = "noted"
    found = grown(stem, Turn("a", "b", "c"))
    assert found is not None
    assert (found.stem.notes, found.stem.lasting) == ({}, {"other": "noted"})
