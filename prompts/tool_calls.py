"""How a model's chat template writes a call of a tool: learned from the template itself."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prompts.chat_template import ChatTemplate
from prompts.errors import ChatTemplateError
from prompts.segments import Message, Tool, ToolCall
from prompts.tokens import PromptTokenizer

_NAME, _KEY, _VALUE = "zqname", "zqkey", "zqvalue"
_PROBE = Tool(
    name=_NAME,
    json=json.dumps({"type": "function", "function": {"name": _NAME, "parameters": {}}}),
)
_CALL = ToolCall(id="call00001", name=_NAME, arguments=json.dumps({_KEY: _VALUE}))
_HELD = "zqheld"
_ASKED = Message(role="user", content="zqasked")
# What is less could begin any text.
_LEAST_TRIGGER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """A call is `before`, the tool's name, `between`, the arguments' JSON, `after`.

    Attributes:
        trigger: what a call and nothing else begins with.
        token: the control token that it begins with; None where it begins with text.
    """

    before: str
    between: str
    after: str
    trigger: str
    token: int | None

    def begin(self, name: str) -> str:
        """What comes before the arguments."""
        return f"{self.before}{name}{self.between}"


def call_shape(tokenizer: PromptTokenizer) -> CallShape | None:
    """The shape of a call; None where the template writes no calls, or not with JSON arguments."""
    chat = tokenizer.chat
    called = Message(role="assistant", content="", tool_calls=(_CALL,))
    result = Message(role="tool", content="zqresult", tool_call_id=_CALL.id, name=_NAME)
    said = Message(role="assistant", content="zqsaid")
    try:
        opened = chat.render([_ASKED], (_PROBE,))
        whole = chat.render([_ASKED, called, result], (_PROBE,))
        plain = chat.render([_ASKED, said, _ASKED], (_PROBE,))
    except ChatTemplateError:
        return None
    if not (whole.startswith(opened) and plain.startswith(opened)):
        return None
    written = whole[len(opened) :]
    name = written.find(_NAME)
    arguments = written.find("{", name + len(_NAME))
    if name < 0 or arguments < 0:
        return None
    try:
        found, end = json.JSONDecoder().raw_decode(written, arguments)
    except json.JSONDecodeError:
        return None
    if found != {_KEY: _VALUE}:
        return None
    before = written[:name].lstrip()
    after = _up_to_close(written[end:], plain[len(opened) :].partition(said.content)[2])
    trigger, token = _trigger(tokenizer, before)
    between = written[name + len(_NAME) : arguments]
    if trigger is None or after is None or _CALL.id in before + between + after:
        return None
    return CallShape(before=before, between=between, after=after, trigger=trigger, token=token)


def shows_tools(chat: ChatTemplate) -> bool:
    """Whether a chat template shows the model its tools at all."""
    try:
        return chat.render([_ASKED], (_PROBE,)) != chat.render([_ASKED], ())
    except ChatTemplateError:
        return True


def takes_message_after(
    chat: ChatTemplate,
    earlier: Sequence[Message],
    added: Sequence[Message],
    tools: tuple[Tool, ...],
) -> bool:
    """Whether what a template writes of earlier messages stays when others follow, and all of
    those others stand behind it."""
    last = replace(earlier[-1], content=_HELD)  # a template may quote what is there
    earlier = [*earlier[:-1], last]
    # A message of the model that nothing follows would be shown as the user's.
    followed = [*earlier, _ASKED] if last.role == "assistant" else earlier
    try:
        before = chat.render(followed, tools)
        whole = chat.render([*earlier, *added], tools)
    except ChatTemplateError:
        return False
    held = before.rfind(_HELD) + len(_HELD)
    if held < len(_HELD) or whole[:held] != before[:held]:
        return False
    return all(message.content in whole[held:] for message in added)


def _up_to_close(text: str, following: str) -> str | None:
    """The text before what closes any answer, with which the text that follows one begins."""
    for length in range(min(len(following), len(text)), 0, -1):
        place = text.find(following[:length])
        if place >= 0:
            return text[:place]
    return None


def _trigger(tokenizer: PromptTokenizer, before: str) -> tuple[str | None, int | None]:
    control = tokenizer.control.first_in(before)
    if control is not None and before.startswith(control):
        return control, tokenizer.control.id_of(control)
    return (before, None) if len(before.strip()) >= _LEAST_TRIGGER else (None, None)
