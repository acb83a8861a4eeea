"""FW3xx: token seams, pages and special tokens."""

from collections.abc import Iterator

from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, PrefixBreak, Severity
from prompts.lint.part import Located, Part
from prompts.lint.pieces import Text, Value
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.text_scan import Blemish, Mark
from prompts.segments import Volatility
from prompts.template import Template, VariableType

# How values begin; a seam is unstable if one of them merges with the space before it.
_OPENINGS = ("The", "a", "1")
_BOS = ("<s>", "<bos>", "<|begin_of_text|>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "[BOS]")
# A page's waste is worth a word if it is at least this part of the scaffold.
_WASTE_SHARE = 4


class UnstableTokenSeam(Rule):
    """Text ends in a space, and the value behind it takes the space into its first token.

    ## What it does
    With a tokenizer, finds text that ends in a space in front of a value, where the value's first
    word swallows the space.

    ## Why it costs
    Most tokenizers join a space with the word behind it, so that the last token of the shared text
    depends on the value. At a page's edge that costs the page.

    ## Example
    ```jinja page-size=1
    You are a helpful assistant. The customer's question is: {{ question }}
    ```

    ## Use instead
    ```jinja page-size=1
    You are a helpful assistant. The customer's question is:
    {{ question }}
    ```

    ## Fix safety
    No fix: it is a choice of layout.

    ## References
    Encoding isn't compositional: `docs/transcripts.md`.
    """

    code = "FW301"
    name = "unstable-token-seam"
    severity = Severity.NOTE
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE)
    needs_tokenizer = True

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for at in prompt.located:
            cost = _seam_cost(prompt, at, context)
            if cost is not None:
                yield self.finding(
                    message=f"The space before {at.part.label(at.piece)} becomes part of the "
                    "value's first token, and a page is lost with it; end the text in a line end.",
                    place=at.part.place(at.piece),
                    cost=cost,
                )


def _seam_cost(prompt: PromptSource, at: Located, context: LintContext) -> PrefixBreak | None:
    """The page that the seam's one token costs; None where it costs none."""
    tokenizer, page = context.options.tokenizer, context.options.page_size
    if tokenizer is None or not isinstance(at.piece, Value) or at.piece.nature.constant:
        return None
    before = prompt.literal_before(at.index)
    if not before or not before[-1].text.endswith(" "):
        return None
    text = before[-1].text
    cost = context.cost(prompt, at.index)
    if not cost.token or cost.token % page:
        return None
    alone = tokenizer.count(text[-16:])
    merged = any(tokenizer.count(text[-16:] + word) <= alone for word in _OPENINGS)
    if not merged:
        return None
    return PrefixBreak(segment=cost.segment, token=cost.token - 1, of=cost.token, page_tokens=page)


class PrefixShorterThanPage(Rule):
    """What requests share is shorter than one page, and so nothing is re-used.

    ## What it does
    With a tokenizer, finds templates whose scaffold is shorter than SGLang's page and in which
    nothing but text of one turn follows; in logs, requests that share less than a page.

    ## Why it costs
    The engine re-uses full pages only. A shared opening of 40 tokens at a page size of 64 is
    prefilled every time.

    ## Example
    ```yaml
    name: short
    version: 1
    variables:
      question: {type: text, volatility: turn}
    segments:
      - {id: rules, role: system, volatility: static, text: "Answer briefly."}
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Use instead
    ```yaml
    name: short
    version: 1
    variables:
      handbook: {type: text, volatility: collection}
      question: {type: text, volatility: turn}
    segments:
      - {id: rules, role: system, volatility: static, text: "Answer briefly."}
      - {id: handbook, role: system, volatility: collection, text: "{{ handbook }}"}
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Fix safety
    No fix. A smaller `--page-size`, or more shared text (instructions, examples, documents), helps.

    ## References
    SGLang's `--page-size`; a prompt's last token is always computed.
    """

    code = "FW302"
    name = "prefix-shorter-than-page"
    severity = Severity.NOTE
    subjects = (Subject.TEMPLATE, Subject.LOG)
    needs_tokenizer = True

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        page = context.options.page_size
        scaffold = _scaffold(prompt, context)
        if scaffold is not None and scaffold[1] < page:
            part, tokens = scaffold
            yield self.finding(
                message=f"The scaffold has {tokens:,} tokens and a page {page:,}, so that no two "
                "requests share anything; use a smaller page, or put more that is shared in front.",
                place=part.locator.place(0, len(part.text)),
                cost=PrefixBreak(segment=part.segment, token=tokens, of=tokens, page_tokens=tokens),
            )


class PartialPageWaste(Rule):
    """A large part of the scaffold lies behind its last full page.

    ## What it does
    With a tokenizer, finds templates in which a quarter or more of the scaffold is behind the last
    full page and nothing but text of one turn follows.

    ## Why it costs
    The tokens behind the last full page are the same in every request, and computed in each.

    ## Example
    ```yaml page-size=32
    name: reviewer
    version: 1
    variables:
      code: {type: text, volatility: turn}
    segments:
      - id: rules
        role: system
        volatility: static
        text: "Review the code below. Name each fault and its line. Be brief and polite."
      - {id: code, role: user, volatility: turn, text: "Code: {{ code }}"}
    ```

    ## Use instead
    More instructions or examples, which cost nothing once they are cached; or a smaller page.
    ```yaml page-size=8
    name: reviewer
    version: 1
    variables:
      code: {type: text, volatility: turn}
    segments:
      - id: rules
        role: system
        volatility: static
        text: "Review the code below. Name each fault and its line. Be brief and polite."
      - {id: code, role: user, volatility: turn, text: "Code: {{ code }}"}
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang's `--page-size`.
    """

    code = "FW303"
    name = "partial-page-waste"
    severity = Severity.NOTE
    subjects = (Subject.TEMPLATE,)
    needs_tokenizer = True

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        page = context.options.page_size
        scaffold = _scaffold(prompt, context)
        if scaffold is None or scaffold[1] < page:
            return
        part, tokens = scaffold
        waste = tokens % page
        if waste * _WASTE_SHARE >= tokens:
            yield self.finding(
                message=f"{waste:,} of the scaffold's {tokens:,} tokens lie behind its last full "
                f"page and are computed for every request; {page - waste:,} more would fill it.",
                place=part.locator.place(0, len(part.text)),
                cost=PrefixBreak(
                    segment=part.segment, token=tokens - waste, of=tokens, page_tokens=waste
                ),
            )


def _scaffold(prompt: PromptSource, context: LintContext) -> tuple[Part, int] | None:
    """The last part of the scaffold and the scaffold's tokens, if only a turn's text follows."""
    if prompt.template is None or context.options.tokenizer is None:
        return None
    leading = [part for part in prompt.parts if part.volatility is Volatility.STATIC]
    rest = prompt.parts[len(leading) :]
    if not leading or list(prompt.parts[: len(leading)]) != leading or not rest:
        return None
    if not _only_turns(prompt.template, rest):
        return None
    pieces = sum(len(part.facts.pieces) for part in leading)
    tokens = context.cost(prompt, pieces).token if pieces < len(prompt.pieces) else None
    return (leading[-1], tokens) if tokens is not None else None


def _only_turns(template: Template, parts: tuple[Part, ...]) -> bool:
    """Whether nothing that several requests can share follows: no documents, no conversation."""
    conversations = {
        name for name, v in template.variables.items() if v.type is VariableType.MESSAGES
    }
    used = {segment.messages for segment in template.segments}
    return (
        not conversations & used
        and template.tools is None
        and all(part.volatility is Volatility.TURN for part in parts)
    )


class SpecialTokenInText(Rule):
    """Text spells a special token of a chat template.

    ## What it does
    Finds `<|im_start|>`, `[INST]`, `</s>` and the like in prompt text. A file that is a whole
    prompt for the completions route, with marks of its own for each turn, is left alone.

    ## Why it costs
    The model reads it as the end of a turn, or as junk: messages get their marks from the chat
    template. Where text that spells a special token is encoded as plain text (as Foreword does), it
    costs tokens and confuses.

    ## Example
    ```yaml
    name: marked
    version: 1
    segments:
      - {id: rules, role: system, volatility: static, text: "Be brief.<|im_end|>"}
    ```

    ## Use instead
    ```yaml
    name: marked
    version: 1
    segments:
      - {id: rules, role: system, volatility: static, text: "Be brief."}
    ```

    ## Fix safety
    No fix: it may have to become a turn of its own.

    ## References
    `docs/decisions.md`: text from users that spells a special token stays plain.
    """

    code = "FW304"
    name = "special-token-in-text"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        if prompt.raw:
            return
        for part, piece in prompt.texts():
            for mark in context.scanner.of(piece.text, Blemish.SPECIAL):
                word = piece.text[mark.start : mark.stop]
                if word in _BOS and _at_start(part, piece, mark):
                    continue
                if word in ("<s>", "</s>") and prompt.source.path.suffix == ".md":
                    continue
                start = piece.start + mark.start
                yield self.finding(
                    message=f"{word} is a special token in chat templates and plain text in a "
                    "message; leave marks to the chat template.",
                    place=part.locator.place(start, start + len(word)),
                    confidence=Confidence.SUSPECTED,
                )


class DoubleBos(Rule):
    """A prompt spells the beginning-of-sequence token that the tokenizer adds as well.

    ## What it does
    Finds prompt text that begins with `<s>`, `<bos>`, `<|begin_of_text|>` and the like.

    ## Why it costs
    The tokenizer puts one in front by itself. With two, no prefix equals that of a client that
    sends one, and models answer worse.

    ## Example
    ```jinja
    <s>[INST] You are a helpful assistant. {{ question }} [/INST]
    ```

    ## Use instead
    ```jinja
    [INST] You are a helpful assistant. {{ question }} [/INST]
    ```

    ## Fix safety
    No fix: the route decides whether the tokenizer adds one.

    ## References
    sgl-project/sglang#888: double BOS by a text round trip.
    """

    code = "FW305"
    name = "double-bos"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part, piece in prompt.texts():
            for mark in context.scanner.of(piece.text, Blemish.SPECIAL):
                word = piece.text[mark.start : mark.stop]
                if word == "<s>" and prompt.source.path.suffix == ".md":
                    continue
                if word in _BOS and part is prompt.parts[0] and _at_start(part, piece, mark):
                    yield self.finding(
                        message=f"The prompt begins with {word}, and most tokenizers add it too; "
                        "leave it out.",
                        place=part.locator.place(piece.start, piece.start + mark.stop),
                        confidence=Confidence.SUSPECTED,
                    )


def _at_start(part: Part, piece: Text, mark: Mark) -> bool:
    return not part.text[: piece.start + mark.start].strip()


RULES: tuple[type[Rule], ...] = (
    UnstableTokenSeam,
    PrefixShorterThanPage,
    PartialPageWaste,
    SpecialTokenInText,
    DoubleBos,
)
