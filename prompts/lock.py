"""The lock: what each version of each template was when it was recorded.

A version never changes once it is recorded, since every cached prompt begins with its scaffold.
The lock keeps digests and token counts, no text. Values and how they are made; the file's form is
in `prompts.lock_file`, the comparison in `prompts.lock_check`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from prompts.canonical import JSON, canonical_text
from prompts.environment import template_environment
from prompts.errors import ChatTemplateError
from prompts.lock_digest import declaration, digest, jinja_form
from prompts.render import render
from prompts.segments import Prompt, RenderedSegment, Volatility, token_digest
from prompts.template import Segment, Template
from prompts.tokens import PromptTokenizer

# Gives the chat template a question, without which some refuse to render.
_PROBE = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSegment:
    """One segment of a recorded template.

    `tokens` counts its text by itself; None where the text depends on values, or nothing counts.
    """

    id: str
    role: str | None
    volatility: Volatility
    digest: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTemplate:
    """One recorded version of a template.

    `body` is a digest of everything that it says. `fingerprint` is that of every prompt it makes,
    None where static variables have a say in it. `scaffold_tokens` counts from the very first token
    of the prompt, the chat template's own included, to the end of the scaffold; `token_digest` is
    over those ids. In a prompt the last of them may merge with the text that follows.
    """

    name: str
    version: int
    body: str
    fingerprint: str | None
    segments: tuple[LockedSegment, ...]
    tools: str | None = None
    scaffold_tokens: int | None = None
    token_digest: str | None = None

    @property
    def reference(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """All recorded templates by reference; `tokenizer` is the identity of what counted.

    `retired` holds the bodies of versions that are gone, so that none comes back as another.
    """

    tokenizer: str | None = None
    templates: Mapping[str, LockedTemplate] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict)


def lock_templates(templates: Iterable[Template], tokenizer: PromptTokenizer | None) -> Lock:
    """What the lock should say of these templates; without a tokenizer nothing is counted."""
    locked = [_locked(template, tokenizer) for template in templates]
    return Lock(
        tokenizer=None if tokenizer is None else tokenizer.identity,
        templates={template.reference: template for template in locked},
    )


def _locked(template: Template, tokenizer: PromptTokenizer | None) -> LockedTemplate:
    segments = tuple(_locked_segment(template, s, tokenizer) for s in template.segments)
    scaffold = _scaffold(template)
    tools = None if template.tools is None else digest(_declared(template, template.tools))
    locked = LockedTemplate(
        name=template.name,
        version=template.version,
        body=_body(template, segments, tools),
        fingerprint=None if scaffold is None else scaffold.fingerprint,
        segments=segments,
        tools=tools,
    )
    if tokenizer is None or scaffold is None or not scaffold.segments:
        return locked
    try:
        ids = _scaffold_ids(scaffold, tokenizer)
    except ChatTemplateError:
        return locked
    return replace(locked, scaffold_tokens=len(ids), token_digest=token_digest(ids))


def _locked_segment(
    template: Template, segment: Segment, tokenizer: PromptTokenizer | None
) -> LockedSegment:
    text = segment.constant
    return LockedSegment(
        id=segment.id,
        role=segment.role,
        volatility=segment.volatility,
        digest=digest(_segment_form(template, segment)),
        tokens=None if text is None or tokenizer is None else tokenizer.count(text),
    )


def _segment_form(template: Template, segment: Segment) -> JSON:
    """What decides a segment's bytes: its text and the declarations of what it uses."""
    content: JSON = segment.constant
    if segment.messages is None and segment.constant is None:
        content = jinja_form(template_environment().parse(canonical_text(segment.source)))
    used = [segment.messages] if segment.messages is not None else list(segment.uses)
    return {
        "role": segment.role,
        "content": content,
        "used": {name: _declared(template, name) for name in used if name in template.variables},
    }


def _declared(template: Template, variable: str) -> JSON:
    return declaration(template.variables[variable])


def _body(template: Template, segments: tuple[LockedSegment, ...], tools: str | None) -> str:
    return digest(
        {
            "segments": [[s.id, s.volatility.label, s.digest] for s in segments],
            "variables": {name: _declared(template, name) for name in template.variables},
            "tools": tools,
        }
    )


def _scaffold(template: Template) -> Prompt | None:
    """The static beginning of every prompt of a template; None if static values decide it."""
    if template.tools and template.variables[template.tools].volatility is Volatility.STATIC:
        return None
    leading = tuple(takewhile(lambda s: s.volatility is Volatility.STATIC, template.segments))
    if any(segment.constant is None for segment in leading):
        return None
    return render(replace(template, variables={}, segments=leading, tools=None), {})


def _scaffold_ids(scaffold: Prompt, tokenizer: PromptTokenizer) -> tuple[int, ...]:
    last = scaffold.segments[-1]
    question = RenderedSegment(
        id="question",
        role="user",
        volatility=Volatility.TURN,
        text=_PROBE,
        message=last.message + 1,
    )
    whole = tokenizer.tokenize(replace(scaffold, segments=(*scaffold.segments, question)))
    return whole.token_ids[: whole.ranges[len(scaffold.segments) - 1].stop]
