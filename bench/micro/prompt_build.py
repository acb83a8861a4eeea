"""`python -m bench.micro.prompt_build`: what building a prompt costs, in CPU time.

One prompt of 20 KB with 24 tools and 20 turns is built over and over with a new question each time,
beside plain Jinja making the same bytes; with `--tokenizer FOLDER` also to token ids, beside the
chat template and the tokenizer used as they come; and a corpus prompt of 100,000 tokens is made
again and compared. Rounds of each are interleaved; the figure is the median round.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import jinja2
import tokenizers

from bench.micro.words import sentences
from prompts import (
    Message,
    Prompt,
    PromptDocument,
    PromptTokenizer,
    Template,
    TokenizedPrompt,
    Tool,
    canonical_tools,
    load_tokenizer,
    parse_template,
    render,
)

PROMPT_CHARACTERS = 20_000
TOOLS = 24
TURNS = 20
CORPUS_TOKENS = 100_000
_ROUNDS = 15
_SEED = 7

_AGENT = b"""
name: agent
version: 1
tools: tools
variables:
  tools: {type: tools, volatility: session}
  instructions: {type: text, volatility: session}
  conversation: {type: messages, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Use the tools.\\n\\n"}
  - {id: instructions, role: system, volatility: session, text: "{{ instructions }}"}
  - {id: conversation, volatility: turn, messages: conversation}
"""
_CORPUS = b"""
name: corpus
version: 1
variables:
  documents: {type: documents, volatility: collection}
  question: {type: text, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Answer from the documents."}
  - id: documents
    role: system
    volatility: collection
    text: |-
      {% for d in documents %}

      <document name="{{ d.name }}">
      {{ d.text }}
      </document>{% endfor %}
  - {id: question, role: user, volatility: turn, text: "{{ question }}"}
"""
_PLAIN = (
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<system>Use the tools.\n\n"
    "{{ instructions }}{% for m in conversation %}<{{ m.role }}>{{ m.content }}{% endfor %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """CPU seconds of one build, as the median of rounds."""

    name: str
    cpu_s: float


def measure(builds: Mapping[str, Callable[[], object]], *, per_round: int) -> list[Figure]:
    """Each build's CPU time; rounds of all of them take turns."""
    taken: dict[str, list[float]] = {name: [] for name in builds}
    for build in builds.values():
        build()
    for _ in range(_ROUNDS):
        for name, build in builds.items():
            began = time.process_time()
            for _ in range(per_round):
                build()
            taken[name].append((time.process_time() - began) / per_round)
    return [Figure(name=name, cpu_s=statistics.median(times)) for name, times in taken.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPrompt:
    """What one prompt is built from; each call to `build` asks another question."""

    template: Template
    values: dict[str, object]
    turns: list[Message]
    questions: random.Random

    def build(self) -> Prompt:
        """As the gateway does it."""
        return render(self.template, {**self.values, "conversation": self._conversation()})  # type: ignore[dict-item]

    def build_text(self) -> str:
        """The same, down to one text: tools, then messages under their roles."""
        prompt = self.build()
        tools = [f"{tool.json}\n" for tool in prompt.tools]
        return "".join([*tools, *[f"<{m.role}>{m.content}" for m in prompt.messages]])

    def build_plain(self, plain: jinja2.Template, tools: Sequence[object]) -> str:
        """The same text by plain Jinja."""
        return plain.render(
            tools=tools,
            instructions=self.values["instructions"],
            conversation=self._conversation(),
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, as they are kept once they were made canonical."""
        return self.values["tools"]  # type: ignore[return-value]

    def _conversation(self) -> list[Message]:
        asked = f"And number {self.questions.randrange(10**9)}?"
        return [*self.turns, Message(role="user", content=asked)]


def agent_prompt() -> AgentPrompt:
    """A prompt of 20,000 characters, its tools included."""
    words = random.Random(_SEED)
    tools = canonical_tools([_tool(number, words) for number in range(TOOLS)])
    turns = [
        Message(role=("user", "assistant")[turn % 2], content=sentences(words, 300))
        for turn in range(TURNS)
    ]
    used = sum(len(tool.json) for tool in tools) + sum(len(turn.content) for turn in turns)
    return AgentPrompt(
        template=parse_template(Path("agent.yaml"), _AGENT),
        values={"tools": tools, "instructions": sentences(words, PROMPT_CHARACTERS - used)},
        turns=turns,
        questions=random.Random(_SEED),
    )


def _tool(number: int, words: random.Random) -> dict[str, object]:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    function = {"name": f"tool_{number:02}", "description": sentences(words, 120)}
    return {"type": "function", "function": {**function, "parameters": schema}}


def text_figures() -> list[Figure]:
    """The prompt as text, ours and plain Jinja's."""
    agent = agent_prompt()
    environment = jinja2.Environment(autoescape=False)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":")}
    plain, spelled = (
        environment.from_string(_PLAIN.replace("| tojson", f)) for f in ("| tojson", "")
    )
    objects = [json.loads(tool.json) for tool in agent.tools]
    texts = [tool.json for tool in agent.tools]
    builds: dict[str, Callable[[], object]] = {
        "render: segments, messages and tools": agent.build,
        "render, and all as one text": agent.build_text,
        "plain Jinja": lambda: agent.build_plain(plain, objects),
        "plain Jinja, tools spelled beforehand": lambda: agent.build_plain(spelled, texts),
    }
    same = {agent_prompt().build_text(), agent_prompt().build_plain(spelled, texts)}
    assert len(same) == 1, "both make the same bytes"
    return measure(builds, per_round=200)


def token_figures(tokenizer: PromptTokenizer, whole: tokenizers.Tokenizer) -> list[Figure]:
    """The prompt as ids, ours and the engine's way: all of the text, every time."""
    agent = agent_prompt()

    def anew() -> list[int]:
        prompt = agent.build()
        text = tokenizer.chat.render(prompt.messages, prompt.tools)
        return whole.encode(text, add_special_tokens=False).ids

    builds: dict[str, Callable[[], object]] = {
        "render and tokenize": lambda: tokenizer.tokenize(agent.build()),
        "chat template and tokenizer": anew,
    }
    return measure(builds, per_round=30)


def corpus_figures(tokenizer: PromptTokenizer) -> list[Figure]:
    """A corpus prompt of 100,000 tokens made again and compared with what it was."""
    template = parse_template(Path("corpus.yaml"), _CORPUS)
    words = random.Random(_SEED)
    documents: list[PromptDocument] = []
    tokens = 0
    while tokens < CORPUS_TOKENS:
        text = sentences(words, 20_000)
        tokens += tokenizer.count(text)
        documents.append(PromptDocument(name=f"{len(documents)}.md", text=text))

    def build(question: str) -> TokenizedPrompt:
        return tokenizer.tokenize(render(template, {"documents": documents, "question": question}))

    first = build("What does it cost?")
    shared = first.ranges[-1].start
    questions = random.Random(_SEED)

    def again() -> bool:
        made = build(f"What does number {questions.randrange(10**9)} cost?")
        assert made.token_ids[:shared] == first.token_ids[:shared]
        return True

    return measure({f"{len(first.token_ids):,} tokens built and compared": again}, per_round=3)


@click.command(help=__doc__)
@click.option("--tokenizer", "folder", type=click.Path(exists=True, path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def main(folder: Path | None, form: str) -> None:
    """Measure and print."""
    figures = text_figures()
    if folder is not None:
        tokenizer = load_tokenizer(folder)
        whole = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        figures += token_figures(tokenizer, whole) + corpus_figures(tokenizer)
    if form == "json":
        rows = [{"name": figure.name, "cpu_s": figure.cpu_s} for figure in figures]
        click.echo(json.dumps({"schema_version": 1, "figures": rows}))
        return
    for figure in figures:
        click.echo(f"{figure.cpu_s * 1e6:10,.1f} µs  {figure.name}")


if __name__ == "__main__":
    main()
