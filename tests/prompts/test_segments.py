"""What a prompt says of itself."""

from hypothesis import given
from hypothesis import strategies as st

from prompts import Message, Prompt, RenderedSegment, ToolCall, Volatility

messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant"]),
        content=st.text(max_size=5),
        tool_calls=st.lists(
            st.builds(
                ToolCall,
                id=st.text(max_size=3),
                name=st.text(max_size=3),
                arguments=st.text(max_size=3),
            ),
            max_size=2,
        ).map(tuple),
        reasoning=st.none() | st.text(max_size=3),
    ),
    max_size=3,
)


def segment(
    name: str, message: int, text: str = "", expanded: tuple[Message, ...] = ()
) -> RenderedSegment:
    return RenderedSegment(
        id=name,
        role="system",
        volatility=Volatility.STATIC,
        text=text,
        message=message,
        expanded=expanded,
    )


def prompt(*segments: RenderedSegment) -> Prompt:
    return Prompt(template="t@1", segments=segments)


def test_texts_of_one_message_are_joined_and_conversations_are_kept() -> None:
    said = (Message(role="user", content="a"), Message(role="user", content="b"))
    made = prompt(
        segment("one", 0, "x"), segment("two", 0, "y"), segment("said", 1, expanded=said),
        segment("three", 3, "z"),
    )  # fmt: skip
    system, *others, last = made.messages
    assert (system.content, last.content) == ("xy", "z")
    assert tuple(others) == said


def test_an_empty_prompt_has_no_messages() -> None:
    assert prompt().messages == ()
    assert prompt().scaffold == ()


@given(messages, messages)
def test_equal_fingerprints_are_equal_conversations(one: list[Message], two: list[Message]) -> None:
    prints = [
        prompt(segment("s", 0, expanded=tuple(said))).fingerprint if said else prompt().fingerprint
        for said in (one, two)
    ]
    assert (prints[0] == prints[1]) == (one == two)


def test_where_a_text_is_cut_into_messages_is_part_of_the_fingerprint() -> None:
    joined = prompt(segment("a", 0, "x"), segment("b", 0, "y"))
    apart = prompt(segment("a", 0, "x"), segment("b", 1, "y"))
    assert joined.fingerprint != apart.fingerprint
