"""From a body to token ids, as the engine does it. Pure but for the tokenizer."""

from typing import Any

from bench.engine_sim.bodies import Rendered, tool_for_template
from bench.engine_sim.limits import RequestRefusedError
from bench.engine_sim.tokens import ChatTemplateRefusedError, ModelText


def prompt_ids(model: ModelText, body: Rendered) -> list[int]:
    """The ids of the messages.

    A last message of the assistant becomes one of the user, unless it is to be continued; then
    its text is encoded by itself and put after the opening of the answer.

    Source: sglang 0.5.23 entrypoints/openai/serving_chat.py _apply_jinja_template.

    Raises:
        RequestRefusedError: no messages, or the chat template refuses them.
    """
    if not body.messages:
        raise RequestRefusedError("Messages cannot be empty.")
    try:
        messages = [message.for_template() for message in body.messages]
    except ValueError as error:
        raise RequestRefusedError(str(error)) from error
    opened = ""
    if messages[-1]["role"] == "assistant":
        if body.continue_final_message:
            opened = str(messages.pop()["content"] or "")
        else:
            messages[-1]["role"] = "user"
    try:
        text = model.render(
            messages,
            tools=_tools(body),
            add_generation_prompt=body.add_generation_prompt,
            **(body.chat_template_kwargs or {}),
        )
    except ChatTemplateRefusedError as error:
        raise RequestRefusedError(str(error)) from error
    ids = model.encode(text, add_special_tokens=False)
    return ids + model.encode(opened, add_special_tokens=False) if opened else ids


def _tools(body: Rendered) -> list[dict[str, Any]] | None:
    """The tools a template sees: none for "none", and only the named one for a named choice."""
    match body.tool_choice:
        case "none":
            return None
        case {"function": {"name": str() as name}}:
            chosen = [tool for tool in body.tools or [] if tool["function"]["name"] == name]
            return [tool_for_template(tool) for tool in chosen] or None
        case _:
            return [tool_for_template(tool) for tool in body.tools or []] or None
