"""A model's config.json, asked for one field at a time: a missing field is named, never guessed.

Source: the places where SGLang 0.5.23 looks, srt/configs/model_config.py and srt/utils/
hf_transformers/common.py (`get_hf_text_config`, `get_context_length`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cache.errors import ModelConfigError

# Vision and audio models keep the language model's fields in a part of their own.
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
# Fields of which 0 makes no model. Others may be 0, such as `num_experts`.
_POSITIVE = frozenset(
    {
        *_CONTEXT_KEYS,
        "conv_L_cache",
        "conv_kernel",
        "full_attention_interval",
        "head_dim",
        "hidden_size",
        "kv_lora_rank",
        "linear_conv_kernel_dim",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "mamba_d_conv",
        "mamba_n_groups",
        "mamba_n_heads",
        "mamba_num_heads",
        "multi_query_group_num",
        "n_groups",
        "n_head_kv",
        "num_attention_groups",
        "num_attention_heads",
        "num_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "num_kv_heads",
        "short_conv_kernel_size",
        "sliding_window_pattern",
        "vocab_size",
    }
)
_LARGEST = 10**12
_LARGEST_ROPE_FACTOR = 10**6
# SGLang looks for a factor at the top; what transformers makes of Gemma 3's file has one for each
# kind of layer instead, so that it finds none.
_FACTOR_UNSEEN = frozenset({"gemma3_text"})
# GPT-2's names for the same things.
_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "hidden_size": "n_embd",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }
)
# What the engine's own configuration class fills in where a published file leaves it out.
# Source: transformers 5.19, models/gemma3/configuration_gemma3.py.
_CLASS_DEFAULTS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "gemma3_text": MappingProxyType(
            {
                "head_dim": 256,
                "max_position_embeddings": 131072,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "sliding_window_pattern": 6,
                "vocab_size": 262208,
            }
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A parsed config.json. `text` is the part that describes the language model."""

    path: str
    raw: Mapping[str, object]
    text: Mapping[str, object]

    @property
    def architecture(self) -> str:
        """The first of `architectures`.

        Raises:
            ModelConfigError: there is none.
        """
        match self.raw.get("architectures"):
            case [str() as first, *_]:
                return first
            case _:
                raise ModelConfigError(
                    path=self.path,
                    reason='config.json has no "architectures", so not even the '
                    "model's kind is known",
                )

    @property
    def context_tokens(self) -> int:
        """The longest prompt and answer together, as the engine derives it; 2,048 by default.

        Raises:
            ModelConfigError: the window or its factor isn't a number that can be.
        """
        factor = self._rope_factor()
        for key in _CONTEXT_KEYS:
            if self.has(key):
                return max(1, int(factor * self.integer(key)))
        return 2048

    def _rope_factor(self) -> float:
        scaling = self.text.get("rope_scaling")
        if not isinstance(scaling, Mapping) or str(self.text.get("model_type")) in _FACTOR_UNSEEN:
            return 1
        told = scaling.get("factor", 1)
        if "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3":
            return 1
        if not isinstance(told, int | float):
            return 1
        if not 0 < told <= _LARGEST_ROPE_FACTOR:  # NaN neither
            reason = f'"rope_scaling" has the factor {told!r} in config.json, which can\'t be'
            raise ModelConfigError(path=self.path, reason=reason)
        return told

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number, 0 or more; above 0 where 0 makes no model.

        Raises:
            ModelConfigError: it is missing and has no default, or isn't one.
        """
        value = self.text.get(key, self.text.get(_ALIASES.get(key, key)))
        if value is None:
            if default is None:
                raise ModelConfigError(path=self.path, reason=f'config.json lacks "{key}"')
            return default
        least = 1 if key in _POSITIVE else 0
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            above = " above 0" if least else ""
            reason = f'"{key}" is {value!r} in config.json, but must be a whole number{above}'
            raise ModelConfigError(path=self.path, reason=reason)
        if value > _LARGEST:
            reason = f'"{key}" is larger than any model\'s in config.json'
            raise ModelConfigError(path=self.path, reason=reason)
        return value

    def has(self, key: str) -> bool:
        """Whether a field is there and not null."""
        return self.text.get(key, self.text.get(_ALIASES.get(key, key))) is not None

    def words(self, key: str) -> Sequence[str]:
        """A list of words, such as `layer_types`.

        Raises:
            ModelConfigError: it is missing or something else.
        """
        value = self.text.get(key)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value
        reason = f'config.json lacks "{key}", a list that tells the kind of each layer'
        raise ModelConfigError(path=self.path, reason=reason)

    def part(self, key: str) -> Mapping[str, object]:
        """A nested object, empty where there is none."""
        value = self.text.get(key, self.raw.get(key))
        return value if isinstance(value, Mapping) else {}


def parse_model_config(raw: Mapping[str, object], *, path: str = "config.json") -> ModelConfig:
    """A config.json that was parsed already."""
    parts = (raw.get(name) for name in _TEXT_PARTS)
    text = next((part for part in parts if isinstance(part, Mapping)), raw)
    defaults = _CLASS_DEFAULTS.get(str(text.get("model_type")), {})
    return ModelConfig(path=path, raw=raw, text={**defaults, **text})


def read_model_config(path: Path) -> ModelConfig:
    """The config of a model folder, or of a config.json itself.

    Raises:
        ModelConfigError: there is none, or it isn't JSON.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        raw = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        reason = "it doesn't exist; give a model folder or its config.json"
        raise ModelConfigError(path=str(file), reason=reason) from error
    except OSError as error:
        raise ModelConfigError(path=str(file), reason=error.strerror or str(error)) from error
    except ValueError as error:
        raise ModelConfigError(path=str(file), reason=f"it isn't JSON ({error})") from error
    except RecursionError as error:
        raise ModelConfigError(path=str(file), reason="its JSON is nested too deeply") from error
    if not isinstance(raw, dict):
        raise ModelConfigError(path=str(file), reason="it isn't a JSON object")
    return parse_model_config(raw, path=str(file))
