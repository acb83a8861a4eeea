"""What a report warns about: a version that re-uses less than the last, a budget not kept. Pure.

A template's label is `name@version`. Both alerts look at the hit rate, token-weighted and over
requests with known figures only; what isn't known is no alert, and is said.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cache.errors import ReportBudgetError
from cache.summary import HitRate

LEAST_REQUESTS = 20
MARGIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRates:
    """One template's requests, and what is known of their re-use; `ideal_rate` None is unknown."""

    template: str
    requests: int
    hit: HitRate
    ideal_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFell:
    """A template's newest version re-uses less than the one before it, by more than the margin."""

    now: TemplateRates
    before: TemplateRates

    @property
    def fell_by(self) -> float:
        """Difference of the two hit rates, above 0."""
        assert self.now.hit.rate is not None
        assert self.before.hit.rate is not None
        return self.before.hit.rate - self.now.hit.rate

    @property
    def ideal_fell_too(self) -> bool | None:
        """Whether less could have been re-used: then the prompts are at fault, else the cache is.

        None where the ideal of either isn't known.
        """
        if self.now.ideal_rate is None or self.before.ideal_rate is None:
            return None
        return self.before.ideal_rate - self.now.ideal_rate > self.fell_by / 2


class BudgetStatus(StrEnum):
    """How a template stands to its budget."""

    UNDER = "under"
    UNKNOWN = "unknown"
    NO_REQUESTS = "no_requests"
    MET = "met"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCheck:
    """One template against the hit rate that it is held to."""

    template: str
    budget: float
    status: BudgetStatus
    rate: float | None
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Least hit rates, 0 … 1: of named templates (with or without a version), and of all others."""

    default: float | None = None
    templates: Mapping[str, float]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Budgets":
        """Budgets from words such as `0.6`, `60%`, `docqa=0.8` or `docqa@2=0.8,chat=0.5`.

        Raises:
            ReportBudgetError: a rate that isn't one, or the same template (or the rate of all
                others) given two budgets.
        """
        default: float | None = None
        templates: dict[str, float] = {}
        for word in (part.strip() for text in texts for part in text.split(",")):
            template, equals, rate = word.rpartition("=")
            template = template.strip()
            if (equals and not template) or template in templates:
                raise ReportBudgetError(word=word)
            if equals:
                templates[template] = _rate(word, rate)
            elif default is None:
                default = _rate(word, rate)
            else:
                raise ReportBudgetError(word=word)
        return cls(default=default, templates=templates)

    def of(self, template: str) -> float | None:
        """A template's budget: that of its version, else of its name, else of all others."""
        by_name = self.templates.get(split_version(template)[0], self.default)
        return self.templates.get(template, by_name)

    def __bool__(self) -> bool:
        return self.default is not None or bool(self.templates)


def version_falls(
    found: Iterable[TemplateRates], *, margin: float = MARGIN, least_requests: int = LEAST_REQUESTS
) -> tuple[VersionFell, ...]:
    """The newest versions that re-use less than the version before them, the worst first.

    Only requests with known figures count, and both versions need `least_requests` of them; a
    version with fewer is passed over, so that the newest two with enough are compared.
    """
    versions: defaultdict[str, list[tuple[int, TemplateRates]]] = defaultdict(list)
    for rates in found:
        name, version = split_version(rates.template)
        if version is not None and rates.hit.rate is not None and rates.hit.requests:
            versions[name].append((version, rates))
    falls: list[VersionFell] = []
    for known in versions.values():
        enough = [(v, r) for v, r in known if r.hit.requests >= least_requests]
        newest = [rates for _, rates in sorted(enough, key=lambda pair: pair[0])[-2:]]
        if len(newest) == 2:
            falls.append(VersionFell(before=newest[0], now=newest[1]))
    bad = [fall for fall in falls if round(fall.fell_by - margin, 9) > 0]
    return tuple(sorted(bad, key=lambda fall: (-fall.fell_by, fall.now.template)))


def check_budgets(found: Sequence[TemplateRates], budgets: Budgets) -> tuple[BudgetCheck, ...]:
    """Every template that has a budget, those under it first, then by name.

    A template that was named and had no requests is among them.
    """
    checks = [
        _check(rates, budget)
        for rates in found
        if (budget := budgets.of(rates.template)) is not None
    ]
    seen = {rates.template for rates in found}
    seen |= {split_version(template)[0] for template in seen}
    checks += [
        BudgetCheck(
            template=template, budget=budget, status=BudgetStatus.NO_REQUESTS, rate=None, requests=0
        )
        for template, budget in budgets.templates.items()
        if template not in seen
    ]
    order = list(BudgetStatus)
    return tuple(sorted(checks, key=lambda check: (order.index(check.status), check.template)))


def split_version(template: str) -> tuple[str, int | None]:
    """A label's name and version; None where it has none."""
    name, at, version = template.rpartition("@")
    return (name, int(version)) if at and version.isdecimal() else (template, None)


def _check(rates: TemplateRates, budget: float) -> BudgetCheck:
    rate = rates.hit.rate
    if rate is None:
        status = BudgetStatus.UNKNOWN
    else:
        status = BudgetStatus.MET if rate >= budget else BudgetStatus.UNDER
    return BudgetCheck(
        template=rates.template, budget=budget, status=status, rate=rate, requests=rates.requests
    )


def _rate(word: str, text: str) -> float:
    text = text.strip()
    try:
        rate = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise ReportBudgetError(word=word) from error
    if not 0 <= rate <= 1:
        raise ReportBudgetError(word=word)
    return rate
