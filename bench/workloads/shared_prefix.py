"""SGLang's `generated-shared-prefix`: groups of prompts, each group with a system prompt. Pure.

Source: sglang 0.5.23 benchmark/datasets/generated_shared_prefix.py, for what its options mean. The
words are ours: equal parameters give equal shapes there and here, not equal texts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.workloads.chance import Chance, Popularity
from bench.workloads.file import JSONObject, WorkloadRequest, answer_of, asked
from bench.workloads.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """The parameters, under their names without `gsp_`; the defaults are SGLang's.

    Attributes:
        range_ratio: lengths lie between this share of what is asked for, and that.
        zipf_alpha: how much more the first groups are asked; None: all equally often.
        ordered: group after group, not in an order of chance.
    """

    num_groups: int = 64
    prompts_per_group: int = 16
    system_prompt_len: int = 2048
    question_len: int = 128
    output_len: int = 256
    range_ratio: float = 1.0
    num_turns: int = 1
    zipf_alpha: float | None = None
    ordered: bool = False


def shared_prefix(
    spec: SharedPrefix, vocabulary: Vocabulary, seed: int
) -> Iterator[WorkloadRequest]:
    """The requests; turns of one prompt follow each other as a session."""
    groups = Chance(seed, "group")
    slots = list(enumerate(_groups(spec, Chance(seed, "assignment"))))
    if not spec.ordered:
        Chance(seed, "order").shuffle(slots)
    for slot, group in slots:
        source = groups.child(group)
        opening = vocabulary.text(source, _length(source, spec.system_prompt_len, spec))
        yield from _prompt(spec, vocabulary, Chance(seed, f"slot/{slot}"), opening, slot, group)


def _groups(spec: SharedPrefix, chance: Chance) -> list[int]:
    total = spec.num_groups * spec.prompts_per_group
    if spec.zipf_alpha is None:
        return [slot // spec.prompts_per_group for slot in range(total)]
    popularity = Popularity(spec.num_groups, spec.zipf_alpha)
    return [popularity.pick(chance) for _ in range(total)]


def _prompt(
    spec: SharedPrefix, vocabulary: Vocabulary, source: Chance, opening: str, slot: int, group: int
) -> Iterator[WorkloadRequest]:
    output = _length(source, spec.output_len, spec)
    messages: list[JSONObject] = []
    session = f"gsp-{slot}" if spec.num_turns > 1 else None
    for turn in range(spec.num_turns):
        question = vocabulary.text(source, _length(source, spec.question_len, spec))
        text = question if turn else f"{opening}\n\n{question}"
        messages.append({"role": "user", "content": text})
        request_id = f"gsp-{slot}-{turn}"
        yield asked(
            {"messages": messages},
            id=request_id,
            session=session,
            turn=turn,
            max_tokens=output,
            labels={"group": str(group)},
        )
        messages.append(answer_of(request_id))


def _length(source: Chance, full: int, spec: SharedPrefix) -> int:
    return source.between(max(1, int(full * spec.range_ratio)), full)
