"""Prompts that begin with one of a few texts: the plainest workload for a prefix cache. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.workloads.chance import Chance, Popularity
from bench.workloads.file import JSONObject, WorkloadRequest, asked
from bench.workloads.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRepetition:
    """What vLLM's `prefix_repetition` data set has, a skew, and where the prefix stands.

    Lengths are in units of the vocabulary. The defaults are vLLM's.

    Attributes:
        skew: 0 uses each prefix equally often; s gives rank k the weight k to the power of minus s.
        role: `user` has all in one message, as vLLM has; `system` has the prefix in a message of
            its own.
        unique: no prompt shares its prefix with another: a control that must show no gain.
    """

    prefix_len: int = 256
    suffix_len: int = 256
    num_prefixes: int = 10
    output_len: int = 128
    num_prompts: int = 1000
    skew: float = 0.0
    role: str = "user"
    unique: bool = False


def prefix_repetition(
    spec: PrefixRepetition, vocabulary: Vocabulary, seed: int
) -> Iterator[WorkloadRequest]:
    """The requests, in an order of chance."""
    prefixes = Chance(seed, "prefix")
    order = _order(spec, Chance(seed, "order"))
    for number, prefix in enumerate(order):
        source = prefixes.child(f"own/{number}") if spec.unique else prefixes.child(prefix)
        opening = vocabulary.text(source, spec.prefix_len)
        rest = vocabulary.text(Chance(seed, f"suffix/{number}"), spec.suffix_len)
        yield asked(
            {"messages": split_prompt(opening, rest, spec.role)},
            id=f"prefix-{number}",
            max_tokens=spec.output_len,
            labels={"prefix": str(prefix)},
        )


def split_prompt(opening: str, rest: str, role: str, *, seam: str = " ") -> list[JSONObject]:
    """A prompt of two parts as messages."""
    if role == "system":
        return [{"role": "system", "content": opening}, {"role": "user", "content": rest}]
    return [{"role": "user", "content": seam.join(part for part in (opening, rest) if part)}]


def _order(spec: PrefixRepetition, chance: Chance) -> list[int]:
    if spec.skew:
        popularity = Popularity(spec.num_prefixes, spec.skew)
        return [popularity.pick(chance) for _ in range(spec.num_prompts)]
    order = [number % spec.num_prefixes for number in range(spec.num_prompts)]
    chance.shuffle(order)
    return order
