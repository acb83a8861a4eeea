"""What two arms are asked, and what their stacks differ in: the cases of each experiment. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from bench.experiments import contents
from bench.experiments.contents import Content, Sizes
from bench.experiments.layouts import Layout, laid_out
from bench.experiments.places import Settings
from bench.workloads import Workload

Expected = Literal["gain", "none", "any"]

WORKING_SET = 5
"""How many times the engine's memory the rotation's documents are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """One arm: its requests and its stack.

    Attributes:
        collection: the mode in which a collection of the content's documents is asked; None: the
            requests show their documents themselves.
    """

    name: str
    workload: Workload
    settings: Settings = field(default_factory=Settings)
    collection: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A against B.

    Attributes:
        varies: what the arms are meant to differ in, beside their stacks.
        concurrency: clients that ask, each its next request when the last was answered.
        documents: what is in the collection, where the arms ask one.
    """

    name: str
    a: ArmPlan
    b: ArmPlan
    varies: tuple[str, ...] = ()
    expected: Expected = "gain"
    concurrency: int = 1
    documents: Mapping[str, str] = field(default_factory=dict)


def layout_case(
    name: str,
    made: Callable[[Sizes], list[Content]],
    a: Layout,
    b: Layout = Layout.SCAFFOLD_FIRST,
    *,
    expected: Expected = "gain",
    concurrency: int = 1,
) -> Callable[[Sizes], Case]:
    """The same content in two layouts, on one stack."""

    def case(sizes: Sizes) -> Case:
        asked = made(sizes)
        arms = [
            ArmPlan(
                name=layout.value,
                workload=laid_out(
                    name, asked, layout, max_tokens=sizes.max_tokens, seed=sizes.seed
                ),
            )
            for layout in (a, b)
        ]
        return Case(
            name=name,
            a=arms[0],
            b=arms[1],
            varies=("workload",),
            expected=expected,
            concurrency=concurrency,
        )

    return case


def each_of(*made: Callable[[Sizes], Case]) -> Callable[[Sizes], Sequence[Case]]:
    """These cases, of the same sizes."""
    return lambda sizes: [case(sizes) for case in made]


def _settings_case(
    name: str, workload: Workload, a: Settings, b: Settings, names: tuple[str, str], **more: object
) -> Case:
    """The same requests to two stacks."""
    ones, others = (
        ArmPlan(name=each, workload=workload, settings=settings)
        for each, settings in zip(names, (a, b), strict=True)
    )
    case = Case(name=name, a=ones, b=others)
    return replace(case, **more)  # type: ignore[arg-type]


def _rotation(sizes: Sizes) -> Workload:
    asked = contents.rotation(sizes)
    return laid_out(
        "rotation",
        asked,
        Layout.SCAFFOLD_FIRST,
        max_tokens=sizes.max_tokens,
        seed=sizes.seed,
    )


def _pool(sizes: Sizes) -> int:
    """A fifth of what the rotation's documents take."""
    words = sizes.rotation * sizes.rotation_words
    return round(words * sizes.tokens_per_word / WORKING_SET / 64) * 64


def tiers(sizes: Sizes) -> Sequence[Case]:
    """A tier that holds all, against none."""
    pool = Settings(pool_tokens=_pool(sizes), tier_tokens=10 * _pool(sizes))
    case = _settings_case(
        "rotation", _rotation(sizes), replace(pool, tiers=False), pool, ("tiers-off", "tiers-on")
    )
    return [case]


def tier_sizes(sizes: Sizes) -> Sequence[Case]:
    """From half of the working set in the tier to all of it and more."""
    pool = _pool(sizes)
    return [
        _settings_case(
            f"tier-{share:g}x",
            _rotation(sizes),
            Settings(pool_tokens=pool, tier_tokens=round(0.5 * WORKING_SET * pool)),
            Settings(pool_tokens=pool, tier_tokens=round(share * WORKING_SET * pool)),
            ("tier-0.5x", f"tier-{share:g}x"),
            expected="any",
        )
        for share in (0.75, 1.0, 1.5)
    ]


def _shared_prefixes(sizes: Sizes) -> Workload:
    asked = contents.prefix_repetition(sizes)
    return laid_out(
        "prefix-repetition",
        asked,
        Layout.SCAFFOLD_FIRST,
        max_tokens=sizes.max_tokens,
        seed=sizes.seed,
    )


def page_sizes(sizes: Sizes) -> Sequence[Case]:
    """Each against the usual 16."""
    return [
        _settings_case(
            f"page-{page}",
            _shared_prefixes(sizes),
            Settings(page_tokens=16),
            Settings(page_tokens=page),
            ("page-16", f"page-{page}"),
            expected="any",
        )
        for page in (1, 64, 256)
    ]


def prefill_budgets(sizes: Sizes) -> Sequence[Case]:
    """Each against what is as good as no bound."""
    return [
        _settings_case(
            f"prefill-{budget}",
            _shared_prefixes(sizes),
            Settings(prefill_tokens=4096),
            Settings(prefill_tokens=budget),
            ("prefill-4096", f"prefill-{budget}"),
            expected="any",
            concurrency=8,
        )
        for budget in (256, 1024)
    ]


def affinity(sizes: Sizes) -> Sequence[Case]:
    """Each replica holds 0.65 of the prefixes: all of them have room where each lies once."""
    words = sizes.prefixes * (sizes.prefix_words + sizes.rule_words)
    pool = round(0.65 * words * sizes.tokens_per_word / 64) * 64
    two = Settings(replicas=2, pool_tokens=pool)
    case = _settings_case(
        "prefix-repetition",
        _shared_prefixes(sizes),
        replace(two, policy="round-robin"),
        replace(two, policy="least-ttft"),
        ("round-robin", "affinity"),
        concurrency=2,
    )
    return [case]


def rag_cag(sizes: Sizes) -> Sequence[Case]:
    """One collection; both arms ask the same questions, the collection is named at run time."""
    asked = [replace(each, rules="", shared=()) for each in contents.document_qa(sizes)]
    documents = {
        f"{number:03}.txt": text
        for number, text in enumerate(
            sorted({text for each in contents.document_qa(sizes) for text in each.shared})
        )
    }
    arms = [
        ArmPlan(
            name=mode,
            workload=laid_out(
                "collection",
                asked,
                Layout.SCAFFOLD_FIRST,
                max_tokens=sizes.max_tokens,
                seed=sizes.seed,
            ),
            collection=mode,
        )
        for mode in ("rag", "cag")
    ]
    return [
        Case(
            name="collection",
            a=arms[0],
            b=arms[1],
            varies=("workload",),
            expected="any",
            documents=documents,
        )
    ]
