"""OpenAI's fields that no engine gets: which are taken for nothing, and which are refused, and why.

docs/http.md has the table of all of OpenAI's fields; a test holds it against the installed SDK.
"""

from collections.abc import Mapping, Sequence

# They steer OpenAI's own service, and nothing is done about them.
IGNORED_FIELDS = frozenset({
    "metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "safety_identifier", "service_tier", "store", "user",
})  # fmt: skip

_OF_TEXT = "the gateway takes and gives text only"
# Each with what to do instead, unless it asks for nothing.
REFUSED_FIELDS: Mapping[str, str] = {
    "access_programs": "they are programs of OpenAI's own service",
    "audio": _OF_TEXT,
    "background_options": "a response of the background is made as soon as there is room for it",
    "context_management": "the gateway never rewrites an input; make a conversation, and say in "
    "its foreword.compaction when that is compacted",
    "function_call": "it is tool_choice's older name; send tool_choice",
    "functions": "it is tools' older name; send tools",
    "image": _OF_TEXT,
    "modalities": _OF_TEXT,
    "moderation": "nothing is moderated here; ask a moderation model of your own",
    "personality": "the model can't be told one; say it in the instructions",
    "prediction": "the engine takes no predicted text, and the answer is the same without it",
    "reasoning": "the model reasons as its chat template has it",
    "reasoning_effort": "the prompt is made by the model's chat template, which is told no effort; "
    "say in the messages how much to think",
    "stream_options": "streams aren't obfuscated here",
    "top_logprobs": "log probabilities are told by /v1/chat/completions only",
    "truncation": "dropping the beginning of a conversation gives up all re-use; shorten the input",
    "verbosity": "the model can't be told a verbosity; say it in the messages",
    "web_search_options": "nothing searches the web here; an agent may have a tool that does",
}

# Values by which a field asks for nothing: OpenAI's defaults.
ASKING_FOR_NOTHING: Mapping[str, Sequence[object]] = {
    "context_management": ([],),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "stream_options": ({}, {"include_obfuscation": False}),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
    "verbosity": ("medium",),
}

_TEXT_ONLY = "the gateway takes text only"
_ELSEWHERE: Mapping[str, str] = {
    "file": "upload it to /v1/files, add it to a vector store and name that in foreword.collection",
    "image_url": _TEXT_ONLY,
    "input_audio": _TEXT_ONLY,
    "input_file": "upload it to /v1/files, add it to a vector store and name that in file_search",
    "input_image": _TEXT_ONLY,
}


def part_refusal(kind: str, *, text_kind: str) -> str:
    """Why a part of a message's content can't be taken; `text_kind` is that of a part with text."""
    hint = _ELSEWHERE.get(kind, f"give {text_kind}")
    return f"a part of type {kind!r} can't be taken; {hint}"


def refusal(field: str, value: object) -> str | None:
    """Why one of OpenAI's fields is refused; None: it isn't one that is, or asks for nothing."""
    if field == "reasoning" and isinstance(value, dict) and not any(value.values()):
        return None
    for nothing in ASKING_FOR_NOTHING.get(field, ()):
        if type(value) is type(nothing) and value == nothing:
            return None
    return REFUSED_FIELDS.get(field)


def is_known(field: str) -> bool:
    """Whether it is one of OpenAI's fields that are refused unless they ask for nothing."""
    return field in REFUSED_FIELDS
