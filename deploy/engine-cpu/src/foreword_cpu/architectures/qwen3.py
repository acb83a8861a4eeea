"""SGLang's own Qwen3, found without importing the other models."""

from sglang.srt.models.qwen3 import Qwen3ForCausalLM

EntryClass = [Qwen3ForCausalLM]
