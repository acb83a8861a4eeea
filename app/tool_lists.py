"""Tools of conversations: what the prompt shows of them, and what the engine holds an answer to.

A client sends its list of tools with each request. The prompt keeps the list that the conversation
began with; where another one comes, the change is told at the end of what was said, and calls of
tools that are gone are masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.errors import InvalidRequestError
from app.replica_view import ReplicaView
from app.schemas import ChatCompletionRequest, ChatMessage
from app.settings import ToolChanges
from app.tool_masks import tool_fields
from prompts import Message, Template, Tool
from prompts.tool_calls import call_shape, shows_tools, takes_message_after
from prompts.tool_changes import Announcement, ToolChange, ToolHistory, spliced

_PROBED = Message(role="user", content="zq first")
_PROBED_ANSWER = Message(role="assistant", content="zq answer")
_PROBED_CHANGE = Message(role="system", content="zq change")
_PROBED_NEXT = Message(role="user", content="zq next")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNews:
    """What was done about a change of tools; `done` is one word of docs/conversations.md."""

    done: str
    change: ToolChange
    reason: str | None = None

    def as_json(self) -> dict[str, object]:
        """As the response tells it."""
        change = self.change
        return {
            "done": self.done,
            "added": [tool.name for tool in change.added],
            "changed": [tool.name for tool in change.altered],
            "returned": list(change.returned),
            "withdrawn": list(change.withdrawn),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        parts = [f"tools {self.done}"]
        parts += [f"+{tool.name}" for tool in self.change.added]
        parts += [f"~{tool.name}" for tool in self.change.altered]
        parts += [f"+{name}" for name in self.change.returned]
        parts += [f"-{name}" for name in self.change.withdrawn]
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A request's tools, made ready.

    Attributes:
        request: with what the model was told of tools among its messages.
        shown: those at the top of the prompt.
        fields: what the engine is sent about tools in place of the client's own words.
        history: the conversation's tools up to now; None where it has none.
        news: what became of a change; None where there was none.
        masked: whether the answer's grammar keeps the model from some tools.
        is_new: whether nothing was known of the conversation's tools.
    """

    request: ChatCompletionRequest
    shown: tuple[Tool, ...] = ()
    fields: dict[str, object] = field(default_factory=dict)
    history: ToolHistory | None = None
    news: ToolNews | None = None
    masked: bool = False
    is_new: bool = True

    def told(self) -> dict[str, object] | None:
        """For the response; None where there is nothing to tell."""
        if self.news is not None:
            return {**self.news.as_json(), "masked": self.masked}
        return {"done": None, "masked": True} if self.masked else None


def list_tools(
    request: ChatCompletionRequest,
    tools: tuple[Tool, ...],
    view: ReplicaView,
    *,
    known: ToolHistory | None,
    changes: ToolChanges,
    words: Template,
) -> Listed:
    """What the prompt and the engine get for a request's tools.

    Raises:
        InvalidRequestError: `tool_choice` names a tool that isn't in the list, or demands a call
            of an engine that reads none.
    """
    history, news = known or ToolHistory.begin(tools), None
    if history.now != tools or (known is not None and not _can_keep(view)):
        history, news = _changed(request, tools, view, history, changes=changes, words=words)
    tokenizer = view.tokenizer if _can_keep(view) else None
    fields, masked = tool_fields(request, history, tokenizer)
    if tools:
        _check_demand(fields.get("tool_choice", request.extras.get("tool_choice")), view)
    return Listed(
        request=_with_announcements(request, history.announcements),
        shown=history.base,
        fields=fields,
        history=history if history.base or history.told else None,
        news=news,
        masked=masked,
        is_new=known is None,
    )


def last_answer(messages: Sequence[ChatMessage]) -> int | None:
    """The model's last message that something follows."""
    for place in range(len(messages) - 2, -1, -1):
        if messages[place].role == "assistant":
            return place
    return None


def _check_demand(choice: object, view: ReplicaView) -> None:
    """An engine without a parser holds its answer to JSON, and gives that as the answer's text.

    Source: sglang 0.5.23, srt/entrypoints/openai/serving_chat.py:1080.
    """
    if choice in (None, "auto", "none"):
        return
    if view.info.settings.get("tool_call_parser", "") is None:
        raise InvalidRequestError(
            "tool_choice: the engine reads no tool calls, so it can't be made to call one; start "
            "it with --tool-call-parser auto or its model's format, or leave tool_choice out",
            param="tool_choice",
        )


def _can_keep(view: ReplicaView) -> bool:
    """Whether the prompt is made here: an engine shows those tools that it is sent."""
    return view.tokenizer is not None and view.parity.ok and view.parity.tools


def _changed(
    request: ChatCompletionRequest,
    tools: tuple[Tool, ...],
    view: ReplicaView,
    history: ToolHistory,
    *,
    changes: ToolChanges,
    words: Template,
) -> tuple[ToolHistory, ToolNews | None]:
    """The history with another list, by the way that costs least of those that are allowed."""
    change = history.change_to(tools)
    if view.tokenizer is None or not _can_keep(view):
        reason = "the engine renders the prompt itself"
        news = ToolNews(done="rewritten", change=change, reason=reason) if change else None
        return ToolHistory.begin(tools), news
    if change is None:
        return history, None
    if not shows_tools(view.tokenizer.chat):
        return ToolHistory.begin(tools), ToolNews(
            done="unseen", change=change, reason="the model's chat template shows no tools"
        )
    if changes == "rewrite":
        return ToolHistory.begin(tools), ToolNews(done="rewritten", change=change)
    if changes == "mask" and not (change.added or change.altered):
        return history.changed(tools), ToolNews(done="masked", change=change)
    place = _place(request, view, history)
    if place is not None:
        shape = None if history.shown else call_shape(view.tokenizer)
        said = Announcement(place=place[0], text=change.words(words, shape), inside=place[1])
        return history.changed(tools, said), ToolNews(done="appended", change=change)
    reason = "the model's chat template takes no message in that place"
    if change.only_withdraws:
        return history.changed(tools), ToolNews(done="masked", change=change, reason=reason)
    return ToolHistory.begin(tools), ToolNews(done="rewritten", change=change, reason=reason)


def _place(
    request: ChatCompletionRequest, view: ReplicaView, history: ToolHistory
) -> tuple[int, bool] | None:
    """Where a change is told: before a message or inside of one; None: nowhere."""
    assert view.tokenizer is not None
    chat = view.tokenizer.chat
    conversation = request.messages[_leading(request.messages) :]
    answer = last_answer(conversation)
    first = 0 if answer is None else answer + 1
    fresh = [n for n in range(first, len(conversation)) if conversation[n].role == "user"]
    place = fresh[0] if fresh else len(conversation)
    earlier = [_PROBED, _PROBED_ANSWER]
    if not fresh:
        earlier = [_PROBED, *(m.message() for m in conversation[answer or 0 :])]
        if takes_message_after(chat, earlier, [_PROBED_CHANGE], history.base):
            return place, False
        return None
    if takes_message_after(chat, earlier, [_PROBED_CHANGE, _PROBED_NEXT], history.base):
        return place, False
    options = request.foreword
    if options is not None and (options.collection is not None or options.mode is not None):
        return None  # a user's words are what is searched for
    return place, True


def _with_announcements(
    request: ChatCompletionRequest, announcements: Sequence[Announcement]
) -> ChatCompletionRequest:
    if not announcements:
        return request
    leading = _leading(request.messages)
    given = request.messages[leading:]
    made = list(request.messages[:leading])
    for each in spliced([(m.role, m.text) for m in given], announcements):
        if isinstance(each, int):
            made.append(given[each])
        else:
            made.append(ChatMessage(role=each[0], content=each[1]))
    return request.model_copy(update={"messages": made})


def _leading(messages: Sequence[ChatMessage]) -> int:
    """How many messages are instructions before the conversation."""
    for place, message in enumerate(messages):
        if not message.instructs:
            return place
    return len(messages)
