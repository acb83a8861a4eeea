"""Text that stays the same: templates, canonical bytes, and rendering to token ids."""

from prompts.canonical import canonical_json, canonical_text
from prompts.errors import PromptError
from prompts.library import TemplateLibrary, load_templates, shipped_templates
from prompts.render import render
from prompts.segments import (
    Message,
    Prompt,
    PromptDocument,
    RenderedSegment,
    SegmentTokens,
    TokenizedPrompt,
    Volatility,
    token_digest,
)
from prompts.template import Segment, Template, Variable, VariableType, parse_template
from prompts.tokens import PromptTokenizer, load_tokenizer

__all__ = [
    "Message",
    "Prompt",
    "PromptDocument",
    "PromptError",
    "PromptTokenizer",
    "RenderedSegment",
    "Segment",
    "SegmentTokens",
    "Template",
    "TemplateLibrary",
    "TokenizedPrompt",
    "Variable",
    "VariableType",
    "Volatility",
    "canonical_json",
    "canonical_text",
    "load_templates",
    "load_tokenizer",
    "parse_template",
    "render",
    "shipped_templates",
    "token_digest",
]
