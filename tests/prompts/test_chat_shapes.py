"""What a chat template makes of other contents by a shape is what it makes by running."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts import Message, Tool, ToolCall, canonical_tools
from prompts.chat_shapes import Piece, Shape, Shapes, Structure
from prompts.chat_template import ChatTemplate
from prompts.chat_watch import Watched
from prompts.errors import ChatTemplateError
from tests.tokenizer_packages import MODELS, RealTokenizers

NAMES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
# What templates look for in contents, and what they trim.
FRAGMENTS = (
    *(
        "",
        " ",
        "\n",
        "\n\n",
        "\t",
        "a",
        "Hi.",
        "é",
        "<think>",
        "</think>",
        "<think>\n\n</think>\n\n",
    ),
    *("<tool_response>", "</tool_response>", "<tool_call>", "</tool_call>", "<|im_end|>", "</s>"),
    *("[THINK]", "[/THINK]", "/think", "/no_think", "Thought", "{", "}", "<|channel|>", "system"),
    *(
        "<|return|>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "You are",
        "%s",
        "{}",
        "<start_of_turn>",
    ),
)
TOOLS = canonical_tools(
    [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("f", "g")]
)
CALL = ToolCall(id="call00001", name="f", arguments='{"a": "x"}')

contents = st.lists(st.sampled_from(FRAGMENTS), max_size=4).map("".join)
maybe = st.none() | contents


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations of few structures and many contents."""
    messages = [Message(role="system", content=draw(contents))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 2))):
        messages.append(Message(role="user", content=draw(contents)))
        answer = Message(role="assistant", content=draw(contents))
        if draw(st.booleans()):
            reasoning, result = draw(maybe), draw(contents)
            messages.append(
                Message(
                    role="assistant",
                    content=answer.content,
                    reasoning=reasoning,
                    tool_calls=(CALL,),
                )
            )
            messages.append(
                Message(role="tool", content=result, tool_call_id=CALL.id, name=draw(maybe))
            )
        messages.append(answer)
    return [*messages, Message(role="user", content=draw(contents))]


def outcome(make: Callable[[], list[Piece]]) -> list[Piece] | str:
    """The pieces, or why there are none."""
    try:
        return make()
    except ChatTemplateError as error:
        return error.problem


class Beside:
    """A template that keeps shapes, beside the same one that runs every time."""

    def __init__(self, source: str) -> None:
        self.shaped = ChatTemplate(source, NAMES)
        self.plain = ChatTemplate(source, NAMES, keeps_shapes=False)

    def check(self, messages: list[Message], tools: tuple[Tool, ...]) -> None:
        """Both make the same of the messages, also when they come again."""
        expected = outcome(lambda: self.plain.pieces(messages, tools))
        assert outcome(lambda: self.shaped.pieces(messages, tools)) == expected
        assert outcome(lambda: self.shaped.pieces(messages, tools)) == expected


@pytest.fixture(scope="module")
def templates(real_tokenizers: RealTokenizers) -> dict[str, Beside]:
    """The chat templates of these models and of the package."""
    sources = {
        path.stem: path.read_text("utf-8") for path in real_tokenizers.templates().glob("*.jinja")
    }
    for model in MODELS:
        config = real_tokenizers.folder(model) / "tokenizer_config.json"
        sources[model] = json.loads(config.read_text("utf-8"))["chat_template"]
    return {name: Beside(source) for name, source in sorted(sources.items())}


@settings(max_examples=60)
@given(messages=conversations(), tools=st.sampled_from([(), TOOLS]))
def test_a_shape_makes_what_the_template_makes(
    templates: dict[str, Beside], messages: list[Message], tools: tuple[Tool, ...]
) -> None:
    for name, beside in templates.items():
        try:
            beside.check(messages, tools)
        except AssertionError as error:
            raise AssertionError(name) from error


def test_a_watched_text_notes_everything_that_reads_it() -> None:
    """No way to look at a text is its own string's."""
    silent = {"__class__", "__new__", "__init__", "__getattribute__", "__setattr__", "__delattr__"}
    silent |= {"__dir__", "__doc__", "__init_subclass__", "__subclasshook__", "__sizeof__"}
    silent |= {"__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "maketrans"}
    for name in set(dir(str)) - silent - {"__str__"}:
        assert getattr(Watched, name) is not getattr(str, name), name
        assert name in vars(Watched), name


def test_shapes_are_used(templates: dict[str, Beside]) -> None:
    """Other contents with the same answers don't run the template again."""
    used = 0
    for beside in templates.values():
        template = ChatTemplate(beside.plain.source, NAMES)
        for content in ("Hi.", "How are you?"):
            made = outcome(partial(template.pieces, _asked(content)))
        used += not isinstance(made, str) and template.runs == 1
    assert used > len(templates) * 0.75


def test_what_is_asked_of_a_content_is_asked_of_the_next() -> None:
    source = "{% for m in messages %}[{% if 'x' in m.content %}x{% endif %}{{ m.content|trim }}]"
    beside = Beside(source + "{% endfor %}")
    for content in ("a", " b ", "", "x", "xx ", "a", "<x>"):
        beside.check(_asked(content), ())
    assert beside.shaped.runs == 2


def test_kept_shapes_are_bounded() -> None:
    shapes = Shapes(capacity=500)
    for number in range(100):
        messages = [Message(role=f"role {number}", content="")]
        shapes.add(Structure.of(messages, 0), Shape(texts=(), asked=(), parts=(Piece("own"),)))
        assert shapes.held <= 500
    assert shapes.pieces(Structure.of(messages, 0), messages) == [Piece("own")]


def test_threads_share_a_template(templates: dict[str, Beside]) -> None:
    beside = templates["qwen3"]
    told = [
        [*_asked(text), Message(role="assistant", content=text), *_asked("?")] for text in FRAGMENTS
    ]
    expected = [beside.plain.pieces(messages) for messages in told]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(beside.shaped.pieces, told * 8))
    assert made == expected * 8


def _asked(content: str) -> list[Message]:
    return [Message(role="user", content=content)]
