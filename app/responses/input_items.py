"""A Responses request's `input` as the messages of a chat completion."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.errors import InvalidRequestError
from app.openai_fields import part_refusal

Item = Mapping[str, Any]

_ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = ("input_text", "output_text", "text")


def messages_of(given: str | Sequence[Item], *, field: str = "input") -> list[dict[str, Any]]:
    """The messages, in chat completions' shape. A call of a function belongs to the assistant's
    message before it, as the model wrote both in one turn.

    Args:
        field: what the client calls the items.

    Raises:
        InvalidRequestError: an item isn't one that can be answered; names it.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}] if given else []
    reader = _Reader()
    for place, item in enumerate(given):
        reader.take(item, f"{field}.{place}")
    return reader.messages


def check_calls(messages: Iterable[Mapping[str, Any]]) -> None:
    """Refuse what no model could go on from.

    Raises:
        InvalidRequestError: a call has no result, or a result no call before it.
    """
    called, unanswered = set[str](), dict[str, None]()
    for message in messages:
        for call in message.get("tool_calls", ()):
            called.add(call["id"])
            unanswered[call["id"]] = None
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id not in called:
                raise InvalidRequestError(
                    f"No tool call found for function call output with call_id {call_id}; send the "
                    "function_call before it, as it came",
                    param="input",
                )
            unanswered.pop(call_id, None)
    for call_id in unanswered:
        raise InvalidRequestError(
            f"No tool output found for function call {call_id}; send a function_call_output with "
            "this call_id",
            param="input",
        )


def messages_after(
    said: Iterable[tuple[Item, bytes | None]], given: str | Sequence[Item]
) -> tuple[list[dict[str, Any]], list[bytes | None]]:
    """The messages of what was said before and of what is given now; with them, for each answer
    among them, its token ids as they are stored: they come with an answer's last item.

    Raises:
        InvalidRequestError: an item isn't one that can be answered; names it.
    """
    reader, spelled = _Reader(), dict[int, bytes]()
    for place, (item, output_ids) in enumerate(said):
        reader.take(item, f"conversation.{place}")
        if output_ids is not None and reader.messages:
            spelled[len(reader.messages) - 1] = output_ids
    if isinstance(given, str):
        given = [{"role": "user", "content": given}] if given else []
    for place, item in enumerate(given):
        reader.take(item, f"input.{place}")
    answers = [at for at, each in enumerate(reader.messages) if each["role"] == "assistant"]
    return reader.messages, [spelled.get(at) for at in answers]


class _Reader:
    """Items one after the other; the model's reasoning waits for the message that it led to."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._reasoning: str | None = None
        self._open = False  # whether the last message is the turn that a call belongs to

    def take(self, item: Item, param: str) -> None:
        match item:
            case {"type": "function_call"}:
                self._call(item, param)
            case {"type": "function_call_output"}:
                self._result(item, param)
            case {"type": "reasoning"}:
                self._reason(item, param)
            case {"type": "file_search_call"}:
                pass  # what was found then is shown by the gateway in its place
            case {"type": "message"}:
                self._message(item, param)
            case {"type": "item_reference"}:
                raise InvalidRequestError(
                    f"{param}: references aren't followed; send the item itself", param=param
                )
            case _ if (kind := item.get("type")) is not None:
                problem = f"{param}: an item of type {kind!r} can't be answered; give a message"
                raise InvalidRequestError(problem, param=param)
            case {"role": _}:
                self._message(item, param)
            case _:
                problem = f"{param}: an item has a type, or a role and content"
                raise InvalidRequestError(problem, param=param)

    def _message(self, item: Item, param: str) -> None:
        role = item.get("role")
        if role not in _ROLES:
            problem = f"{param}.role: {role!r} is none of {', '.join(_ROLES)}"
            raise InvalidRequestError(problem, param=f"{param}.role")
        message = {"role": role, "content": _text(item.get("content"), f"{param}.content")}
        self._open = role == "assistant"
        if self._open:
            message |= self._taken_reasoning()
        self.messages.append(message)

    def _call(self, item: Item, param: str) -> None:
        call = {
            "id": _field(item, "call_id", param),
            "type": "function",
            "function": {
                "name": _field(item, "name", param),
                "arguments": _field(item, "arguments", param),
            },
        }
        if not self._open:
            turn = {"role": "assistant", "content": None, **self._taken_reasoning()}
            self.messages.append(turn)
            self._open = True
        self.messages[-1].setdefault("tool_calls", []).append(call)

    def _result(self, item: Item, param: str) -> None:
        self._open = False
        self.messages.append({
            "role": "tool",
            "tool_call_id": _field(item, "call_id", param),
            "content": _text(item.get("output"), f"{param}.output"),
        })  # fmt: skip

    def _reason(self, item: Item, param: str) -> None:
        self._open = False
        parts = item.get("content") or []
        texts = [part["text"] for part in parts if isinstance(part, dict) and "text" in part]
        self._reasoning = "".join(str(text) for text in texts) or None

    def _taken_reasoning(self) -> dict[str, Any]:
        reasoning, self._reasoning = self._reasoning, None
        return {} if reasoning is None else {"reasoning_content": reasoning}


def _text(content: Any, param: str) -> str:
    """The text of a message's content or of a function's result."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequestError(f"{param}: must be text or a list of parts", param=param)
    return "".join(_part(part, f"{param}.{place}") for place, part in enumerate(content))


def _part(part: Any, param: str) -> str:
    match part:
        case {"type": kind, "text": str() as text} if kind in _TEXT_PARTS:
            return text
        case {"type": "refusal", "refusal": str() as text}:
            return text
        case {"type": str() as kind}:
            problem = f"{param}: {part_refusal(kind, text_kind='input_text')}"
        case _:
            problem = f"{param}: a part is an object with type and text"
    raise InvalidRequestError(problem, param=param)


def _field(item: Item, name: str, param: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        problem = f"{param}.{name}: must be text"
        raise InvalidRequestError(problem, param=f"{param}.{name}")
    return value
