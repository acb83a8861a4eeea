"""An engine's refusals, as a real one spelled them (SGLang 0.5.23), in words for clients."""

import httpx
import pytest

from app.engine_words import plainly, refusal_in
from bench.engine_sim import SimulatorThread

SOURCE = "/srv/engine/lib/python3.11/site-packages/sglang/srt/entrypoints/http_server.py"


def dump(*errors: str) -> str:
    """SGLang's message about a body that isn't of its kind."""
    head = f"{len(errors)} validation error{'s' if len(errors) > 1 else ''}:"
    lines = "".join(f"\n  {error}" for error in errors)
    where = f'\n\n  File "{SOURCE}", line 1870, in openai_v1_chat_completions'
    return f"{head}{lines}{where}\n    POST /v1/chat/completions [{', '.join(errors)}]"


@pytest.mark.parametrize(
    ("message", "told", "param"),
    [
        (
            dump(
                "{'type': 'int_type', 'loc': ('body', 'n'), 'msg': 'Input should be a valid "
                "integer', 'input': None}"
            ),
            "n: Input should be a valid integer",
            "n",
        ),
        (
            dump(
                "{'type': 'literal_error', 'loc': ('body', 'response_format', 'ResponseFormat', "
                "'type'), 'msg': \"Input should be 'text', 'json_object' or 'json_schema'\", "
                "'input': 'xml', 'ctx': {'expected': \"'text', 'json_object' or 'json_schema'\"}}",
                "{'type': 'missing', 'loc': ('body', 'response_format', 'StructuralTag', "
                "'format'), 'msg': 'Field required', 'input': {'type': 'xml'}}",
            ),
            "response_format: Input should be 'text', 'json_object' or 'json_schema'",
            "response_format",
        ),
        (
            dump(
                "{'type': 'string_type', 'loc': ('body', 'tools', 0, 'function', 'name'), "
                "'msg': 'Input should be a valid string', 'input': 3}"
            ),
            "tools.0.function.name: Input should be a valid string",
            "tools.0.function.name",
        ),
        (
            dump(
                "{'type': 'list_type', 'loc': ('body', 'prompt', 'list[str]'), 'msg': 'Input "
                "should be a valid list', 'input': 1}"
            ),
            "prompt: Input should be a valid list",
            "prompt",
        ),
        (
            dump(
                "{'type': 'float_parsing', 'loc': ('body', 'logit_bias', \"a b)'\"), 'msg': "
                "'Input should be a valid number', 'input': 'x'}"
            ),
            "logit_bias: Input should be a valid number",
            "logit_bias",
        ),
        (
            dump("{'told': 'in another way'}"),
            "a field has a value that the engine doesn't take",
            None,
        ),
        ("top_p must be in (0, 1], got 7.0.", "top_p must be in (0, 1], got 7.0.", "top_p"),
        (
            "min_new_tokens must be in [0, max_new_tokens(2)], got 9.",
            "min_tokens must be in [0, max_tokens(2)], got 9.",
            "min_tokens",
        ),
        (
            "Failed to compile regex grammar: [13:23:05] /project/cpp/regex_converter.cc:83: Regex "
            "parsing error at position 3: The parenthesis is not closed.\n",
            "Failed to compile regex grammar: Regex parsing error at position 3: The parenthesis "
            "is not closed.",
            "regex",
        ),
        (
            "Failed to compile json grammar: [13:30:45] /project/cpp/json_schema_converter.cc:41: "
            'Unsupported type "nope"\n',
            'Failed to compile json grammar: Unsupported type "nope"',
            "response_format",
        ),
        (
            'it broke\nTraceback (most recent call last):\n  File "/opt/a.py", line 3, in f',
            "it broke",
            None,
        ),
        ("no adapter at /srv/models/lora/a: load it", "no adapter at load it", None),
        ("ask /v1/chat/completions and/or /ready", "ask /v1/chat/completions and/or /ready", None),
        ("", "no reason given", None),
    ],
)  # fmt: skip
def test_one_sentence_with_the_field(message: str, told: str, param: str | None) -> None:
    assert plainly(message) == (told, param)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"object": "error", "message": "no", "code": 400}', "no"),
        (b'{"error": {"message": "no"}}', "no"),
        (b'{"error": "no"}', "no"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "Field required"}]}', "n: Field required"),
        (b"Internal Server Error", "Internal Server Error"),
        (b'[{"input": "a secret"}]', "no reason given"),
        (b"", "no reason given"),
    ],
)
def test_whatever_the_body_is(body: bytes, told: str) -> None:
    assert refusal_in(body).message == told


def test_what_the_simulator_says_is_told_so_too(simulator: SimulatorThread) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "n": None}
    answer = httpx.post(f"{simulator.url}/v1/chat/completions", json=body, trust_env=False)
    assert "http_server.py" in answer.text
    assert refusal_in(answer.content) == ("n: Input should be a valid integer", "n")


@pytest.mark.parametrize(
    "repeated", ["/a", " ", "'a', ", "\"'\\", "'loc': ('body'", "a.py/", 'File "']
)
@pytest.mark.parametrize("head", ["", "1 validation error:", "/a.b", "'loc': ('body', "])
def test_a_long_value_of_the_clients_is_told_short(head: str, repeated: str) -> None:
    """And no pattern tries again and again on it: this would take minutes."""
    told = plainly(head + repeated * 100_000)
    assert len(told.message) <= 600
