"""Text that stays the same: templates, canonical bytes, and rendering to token ids."""

from prompts.canonical import canonical_json, canonical_text, parse_json
from prompts.delimiting import shown_name
from prompts.errors import PromptError, TemplateNotFoundError, TranscriptRewriteError
from prompts.held_tokens import with_held_ids
from prompts.library import TemplateLibrary, load_templates, shipped_templates
from prompts.render import render
from prompts.segments import (
    Message,
    Prompt,
    PromptDocument,
    RenderedSegment,
    SegmentTokens,
    TokenizedPrompt,
    Tool,
    ToolCall,
    Volatility,
    token_digest,
)
from prompts.stem_growth import Turn, grown
from prompts.stem_making import stem_of
from prompts.stems import PromptStem, StemPrompt
from prompts.template import Segment, Template, Variable, VariableType
from prompts.template_file import parse_template
from prompts.tokens import PromptTokenizer, load_tokenizer
from prompts.tools import canonical_tools
from prompts.transcript import InherentBreak, Transcript

__all__ = [
    "InherentBreak",
    "Message",
    "Prompt",
    "PromptDocument",
    "PromptError",
    "PromptStem",
    "PromptTokenizer",
    "RenderedSegment",
    "Segment",
    "SegmentTokens",
    "StemPrompt",
    "Template",
    "TemplateLibrary",
    "TemplateNotFoundError",
    "TokenizedPrompt",
    "Tool",
    "ToolCall",
    "Transcript",
    "TranscriptRewriteError",
    "Turn",
    "Variable",
    "VariableType",
    "Volatility",
    "canonical_json",
    "canonical_text",
    "canonical_tools",
    "grown",
    "load_templates",
    "load_tokenizer",
    "parse_json",
    "parse_template",
    "render",
    "shipped_templates",
    "shown_name",
    "stem_of",
    "token_digest",
    "with_held_ids",
]
