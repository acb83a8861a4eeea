"""The experiments by name. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.experiments import cases, contents
from bench.experiments.cases import Case
from bench.experiments.contents import Sizes
from bench.experiments.layouts import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Some cases that answer one question."""

    name: str
    question: str
    cases: Callable[[Sizes], Sequence[Case]]
    sizes: Sizes = field(default_factory=Sizes)
    only_simulated: bool = False


_ALL = (
    Experiment(
        name="layout",
        question="Headline: the same content with the scaffold first and byte-stable, against "
        "user-first with a clock on top.",
        cases=cases.each_of(
            cases.layout_case(
                "prefix-repetition", contents.prefix_repetition, Layout.NAIVE, concurrency=2
            ),
            cases.layout_case("document-qa", contents.document_qa, Layout.NAIVE, concurrency=2),
        ),
        # Four rounds on SmolLM2 and two quiet cores take a quarter of an hour.
        sizes=Sizes(requests=16),
    ),
    Experiment(
        name="tiers",
        question="Headline: a working set of five times the engine's memory, with tiers and "
        "without.",
        cases=cases.tiers,
        sizes=Sizes(rotation_words=1_300, visits=2),
    ),
    Experiment(
        name="scaffold-first",
        question="What does it cost to put the question before documents and rules?",
        cases=cases.each_of(
            cases.layout_case("document-qa", contents.document_qa, Layout.USER_FIRST)
        ),
    ),
    Experiment(
        name="byte-stable",
        question="What does a clock at the top cost?",
        cases=cases.each_of(
            cases.layout_case("document-qa", contents.document_qa, Layout.CLOCK_ON_TOP)
        ),
    ),
    Experiment(
        name="one-character",
        question='What does one changed character cost: "Documents" where "Document" was cached?',
        cases=cases.each_of(
            cases.layout_case("one-character", contents.one_character, Layout.ONE_CHARACTER)
        ),
    ),
    Experiment(
        name="no-reuse",
        question="Control: nothing is shared, so that no layout may gain anything.",
        cases=cases.each_of(
            cases.layout_case("no-reuse", contents.no_reuse, Layout.NAIVE, expected="none")
        ),
    ),
    Experiment(
        name="rag-cag",
        question="The same questions to one collection, by retrieval and whole.",
        cases=cases.rag_cag,
    ),
    Experiment(
        name="affinity",
        question="Two replicas: requests go where their prefix is held, against in turn.",
        cases=cases.affinity,
        sizes=Sizes(requests=60, prefixes=12),
    ),
    Experiment(
        name="tier-size",
        question="What does a larger tier give when the working set is five times the memory?",
        cases=cases.tier_sizes,
        only_simulated=True,
    ),
    Experiment(
        name="page-size",
        question="How much re-use do larger pages lose?",
        cases=cases.page_sizes,
        only_simulated=True,
    ),
    Experiment(
        name="prefill-budget",
        question="What does the chunked-prefill budget change under eight clients?",
        cases=cases.prefill_budgets,
        only_simulated=True,
    ),
)

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({each.name: each for each in _ALL})
