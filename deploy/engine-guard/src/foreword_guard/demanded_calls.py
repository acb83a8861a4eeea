"""Calls that must come are read also where SGLang can't tell how its model writes calls.

Where a request demands a call (`tool_choice` required, or a function), SGLang 0.5.23 holds the
answer to a JSON array of calls, and reads it by itself (entrypoints/openai/serving_chat.py:3228,
streaming :3630). It does so only with some parser configured (:1080,
`_tool_call_parsing_active`); with `--tool-call-parser auto` and a chat template that tells no
format it has none (parser/template_detection.py:1082): the array comes back as text, in an answer
that says nothing of it.

So there the engine gets a parser that reads nothing out of what the model writes of its own accord.
And its JSON is held to one spelling: a model that never learnt calls fills the array with white
space, of which SGLang's reader of streams makes text, and loses calls and arguments
(function_call/json_array_parser.py).
"""

import functools
import logging
import multiprocessing
import os
import sys
from typing import Any

logger = logging.getLogger("foreword_guard")

PARSER = "foreword_json"
"""The gateway knows it by this name, in `/server_info`."""

_ENGINE = "sglang.srt.entrypoints.engine"


def install() -> None:
    """Put it behind SGLang's detection, in the process that resolves an engine's settings."""
    if multiprocessing.parent_process() is not None:
        return
    from sglang.srt.parser import template_detection

    detect = template_detection.resolve_auto_parsers

    @functools.wraps(detect)
    def detect_or_read_what_is_demanded(server_args: Any) -> None:
        asked = _resolved(server_args).tool_call_parser == "auto"
        detect(server_args)
        if asked and _resolved(server_args).tool_call_parser is None and _is_alone(server_args):
            _read_what_is_demanded(server_args)

    template_detection.resolve_auto_parsers = detect_or_read_what_is_demanded
    if _ENGINE in sys.modules:  # has the function by name; one imported later gets this one
        sys.modules[_ENGINE].resolve_auto_parsers = detect_or_read_what_is_demanded  # type: ignore[attr-defined]


def _is_alone(server_args: Any) -> bool:
    """Whether this process, or forks of it, read the answers: others don't know the parser."""
    return _resolved(server_args).tokenizer_worker_num == 1 and not os.environ.get(
        "SGLANG_RUST_SERVER"
    )


def _read_what_is_demanded(server_args: Any) -> None:
    from sglang.srt.arg_groups.overrides import declare_resolution
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    FunctionCallParser.ToolCallParserEnum[PARSER] = detector_class()
    declare_resolution(
        server_args,
        "foreword_guard",
        tool_call_parser=PARSER,
        constrained_json_disable_any_whitespace=True,
    )
    logger.warning(
        "foreword_guard: only calls that a request demands are read (tool_choice required, or a "
        "function): name the model's format for the others, as in --tool-call-parser llama3."
    )


def detector_class() -> type[Any]:
    """SGLang's kind of parser, to which all text is text."""
    from sglang.srt.function_call.base_format_detector import BaseFormatDetector
    from sglang.srt.function_call.core_types import StreamingParseResult

    class DemandedCalls(BaseFormatDetector):  # type: ignore[misc]
        def has_tool_call(self, text: str) -> bool:
            return False

        def detect_and_parse(self, text: str, tools: Any) -> Any:
            return StreamingParseResult(normal_text=text)

        def parse_streaming_increment(self, new_text: str, tools: Any) -> Any:
            return StreamingParseResult(normal_text=new_text)

        def supports_structural_tag(self) -> bool:
            """No: SGLang then asks for its JSON array."""
            return False

        def structure_info(self) -> Any:
            raise NotImplementedError

    return DemandedCalls


def _resolved(server_args: Any) -> Any:
    from sglang.srt.arg_groups.overrides import resolving_view

    return resolving_view(server_args)
