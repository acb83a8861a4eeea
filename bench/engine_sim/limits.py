"""What the engine refuses before it computes anything, in its own words. Pure."""

from dataclasses import dataclass

from bench.engine_sim.config import SimulatorConfig

# SGLang keeps one token back for the answer and five for its own purposes: with a window of 8,192
# tokens a real engine named 8,186 as the longest input.
_RESERVED_TOKENS = 5


@dataclass
class RequestRefusedError(Exception):
    """The engine answers with an error body.

    `message` is SGLang's sentence; `type` and `status` are what its body says.
    """

    message: str
    type: str = "BadRequestError"
    status: int = 400

    def __str__(self) -> str:
        return self.message


def longest_request(config: SimulatorConfig) -> int:
    """Tokens of prompt and answer together: one less than the window or the pool allows."""
    return min(config.context_tokens, config.pool_tokens) - 1


def new_tokens_allowed(config: SimulatorConfig, prompt_tokens: int, asked: int | None) -> int:
    """The longest answer: what was asked, cut to what is left.

    Source: sglang 0.5.23 managers/scheduler.py init_req_max_new_tokens.
    """
    room = longest_request(config) - prompt_tokens - 1
    return max(0, room if asked is None else min(asked, room))


def check_length(config: SimulatorConfig, prompt_tokens: int, max_new_tokens: int | None) -> None:
    """Refuse what does not fit, in the order in which the engine looks.

    Source: sglang 0.5.23 managers/tokenizer_manager.py _validate_one_request, then
    managers/utils.py validate_input_length.

    Raises:
        RequestRefusedError: too long.
    """
    window = config.context_tokens
    if prompt_tokens >= window:
        raise RequestRefusedError(
            f"The input ({prompt_tokens} tokens) is longer than the "
            f"model's context length ({window} tokens)."
        )
    if max_new_tokens is not None and prompt_tokens + max_new_tokens > window:
        raise RequestRefusedError(
            "Requested token count exceeds the model's maximum context length of "
            f"{window} tokens. You requested a total of {prompt_tokens + max_new_tokens} tokens: "
            f"{prompt_tokens} tokens from the input messages and {max_new_tokens} tokens for the "
            "completion. Please reduce the number of tokens in the input messages or the "
            "completion to fit within the limit."
        )
    longest_input = longest_request(config) - _RESERVED_TOKENS
    if prompt_tokens >= longest_input:
        raise RequestRefusedError(
            f"Input length ({prompt_tokens} tokens) exceeds the maximum allowed length "
            f"({longest_input} tokens). Use a shorter input or enable --allow-auto-truncate."
        )
