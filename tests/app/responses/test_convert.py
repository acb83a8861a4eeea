"""A Responses request and the chat completion that answers it ask for the same."""

from typing import Any

import pytest

from app.errors import InvalidRequestError, RefusedFieldError
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.refusals import check_request

SEARCH = {"type": "file_search", "vector_store_ids": ["vs_1"]}
FUNCTION = {"type": "function", "name": "now", "parameters": {"type": "object"}, "strict": True}


def converted(**fields: Any) -> dict[str, Any]:
    request = asked(**fields)
    check_request(request)
    return chat_request(request, frozenset()).model_dump(exclude_unset=True, mode="json")


def asked(**fields: Any) -> ResponsesRequest:
    return ResponsesRequest.model_validate({"model": "default", "input": "When?"} | fields)


def test_a_plain_question() -> None:
    made = converted(instructions="Be brief.", temperature=0, top_p=0.5, max_output_tokens=9)
    assert made["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "When?"},
    ]
    assert (made["temperature"], made["top_p"], made["max_completion_tokens"]) == (0, 0.5, 9)
    assert made["stream"] is False
    assert "foreword" not in made


def test_a_stream_asks_for_usage() -> None:
    assert converted(stream=True)["stream_options"] == {"include_usage": True}


def test_a_search_names_the_collection() -> None:
    tool = SEARCH | {
        "max_num_results": 4,
        "filters": {"type": "eq", "key": "year", "value": 2024},
        "ranking_options": {"ranker": "auto", "score_threshold": 0.2},
    }
    made = converted(tools=[tool], foreword={"mode": "rag"})["foreword"]
    assert made == {
        "mode": "rag",
        "collection": "vs_1",
        "passages": 4,
        "filters": tool["filters"],
        "score_threshold": 0.2,
    }
    assert "foreword" not in converted(tools=[SEARCH], tool_choice="none")
    assert "tool_choice" not in converted(tools=[SEARCH], tool_choice={"type": "file_search"})


def test_a_prompt_names_the_template_and_its_values() -> None:
    variables = {"mood": "kind", "place": {"type": "input_text", "text": "Ellery"}}
    prompt = {"id": "docqa", "version": "1", "variables": variables}
    assert converted(prompt=prompt)["foreword"] == {
        "template": "docqa@1",
        "variables": {"mood": "kind", "place": "Ellery"},
    }
    assert converted(prompt={"id": "docqa"})["foreword"]["template"] == "docqa"


def test_functions_have_chat_completions_shape() -> None:
    made = converted(tools=[FUNCTION], tool_choice="required", parallel_tool_calls=False)
    function = {name: value for name, value in FUNCTION.items() if name != "type"}
    assert made["tools"] == [{"type": "function", "function": function}]
    assert (made["tool_choice"], made["parallel_tool_calls"]) == ("required", False)
    named = converted(tools=[FUNCTION], tool_choice={"type": "function", "name": "now"})
    assert named["tool_choice"] == {"type": "function", "function": {"name": "now"}}
    some = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "now"}]}
    allowed = converted(tools=[FUNCTION], tool_choice=some)
    assert allowed["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "now"}}],
        },
    }


def test_a_form_of_the_answer() -> None:
    schema = {"type": "object"}
    form = {"type": "json_schema", "name": "time", "schema": schema, "strict": True}
    assert converted(text={"format": form})["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "time", "schema": schema, "strict": True},
    }
    wanted = converted(text={"format": {"type": "json_object"}})["response_format"]
    assert wanted == {"type": "json_object"}
    assert "response_format" not in converted(text={"format": {"type": "text"}})


def test_what_asks_for_nothing_is_taken() -> None:
    made = converted(
        store=True, background=False, truncation="disabled", previous_response_id=None,
        reasoning={"effort": None}, service_tier="auto", user="u", metadata={"a": "b"},
        prompt_cache_key="k", safety_identifier="s", top_logprobs=0, tools=None, include=None,
        text={"verbosity": "medium"}, stream_options={"include_obfuscation": False},
        context_management=[], max_tool_calls=3, seed=7, top_k=4,
    )  # fmt: skip
    assert (made["seed"], made["top_k"]) == (7, 4)
    assert not {"store", "background", "service_tier", "metadata"} & set(made)


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": tools}


def test_a_choice_that_holds_is_taken() -> None:
    name = FUNCTION["name"]
    search = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "file_search"}]}
    assert "tool_choice" not in converted(tool_choice="auto")
    assert "tool_choice" not in converted(tools=[SEARCH], tool_choice="required")
    assert "tool_choice" not in converted(tools=[SEARCH], tool_choice={"type": "file_search"})
    assert "tool_choice" not in converted(tools=[SEARCH], tool_choice=search)
    # The model is told of the functions alone: what isn't allowed isn't searched.
    made = converted(tools=[SEARCH, FUNCTION], tool_choice=allowed(name))
    assert "foreword" not in made
    assert [tool["function"]["name"] for tool in made["tools"]] == [name]
    assert "foreword" not in converted(tools=[SEARCH, FUNCTION], tool_choice="none")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        (
            {"previous_response_id": "resp_1", "conversation": "conv_1"},
            "previous_response_id",
            "exclude each other",
        ),
        ({"truncation": "auto"}, "truncation", "shorten the input"),
        ({"reasoning": {"effort": "high"}}, "reasoning", "chat template"),
        ({"top_logprobs": 3}, "top_logprobs", "chat/completions"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options", "obfuscated"),
        ({"cache_salt": "x"}, "cache_salt", "not a field"),
        ({"colour": 1}, "colour", "not a field"),
        ({"include": ["reasoning.encrypted_content"]}, "include", "file_search_call.results"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "instructions"),
        ({"tools": [SEARCH, SEARCH]}, "tools", "ask once for each"),
        ({"tools": [SEARCH | {"vector_store_ids": ["a", "b"]}]}, "tools", "one vector store"),
        ({"tools": [SEARCH | {"vector_store_ids": []}]}, "tools", "one vector store"),
        (
            {"tools": [SEARCH], "foreword": {"collection": "x"}},
            "foreword.collection",
            "leave foreword.collection out",
        ),
        (
            {"prompt": {"id": "docqa"}, "foreword": {"template": "chat"}},
            "foreword.template",
            "leave foreword.template out",
        ),
        ({"input": []}, "input", "give an input"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice", "give auto"),
        (
            {
                "tools": [FUNCTION],
                "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "x"}]},
            },
            "tool_choice",
            "names functions",
        ),
        ({"tool_choice": "required"}, "tool_choice", "there are no tools"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice", "file_search is not among"),
        (
            {"tools": [FUNCTION], "tool_choice": {"type": "file_search"}},
            "tool_choice",
            "file_search is not among",
        ),
        ({"tool_choice": {"type": "function", "name": "g"}}, "tool_choice", "'g' is not among"),
        (
            {"tools": [SEARCH], "tool_choice": {"type": "function", "name": "g"}},
            "tool_choice",
            "'g' is not among",
        ),
        ({"tool_choice": allowed()}, "tool_choice", "tools is empty"),
        ({"tool_choice": allowed("g")}, "tool_choice", "'g' is not among"),
        ({"tools": [FUNCTION], "tool_choice": allowed("g")}, "tool_choice", "'g' is not among"),
        ({"tools": [FUNCTION], "tool_choice": allowed(mode="none")}, "tool_choice", "give auto"),
        ({"tools": [SEARCH, FUNCTION]}, "tools", "can't be given together.*/search"),
        ({"tools": [SEARCH], "max_tool_calls": 0}, "max_tool_calls", "a search is one call"),
        ({"max_tool_calls": -1}, "max_tool_calls", "a whole number from 0"),
        ({"tools": [FUNCTION | {"name": "f g"}]}, "tools.0.name", "'f g' is no function's name"),
        ({"tools": [FUNCTION | {"name": "f" * 65}]}, "tools.0.name", "1 to 64"),
        (
            {"prompt": {"id": "docqa", "variables": {"x": {"type": "input_image"}}}},
            "prompt.variables.x",
            "give text",
        ),
    ],
)
def test_what_would_be_left_undone_is_refused(
    fields: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises((InvalidRequestError, RefusedFieldError), match=words) as caught:
        converted(**fields)
    assert caught.value.param == param
