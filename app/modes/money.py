"""What a request costs in money: at a vendor's prices for tokens, or on GPUs of one's own. Pure.

Every mode has the system prompt first, which is cached. RAG sends the passages and the question
behind it uncached, since other passages come each time; CAG has the corpus cached behind it, and
sends the question. Answers cost the same in each mode.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.schemas import Mode

_MILLION = 1_000_000
_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Dollars for a million tokens."""

    input: float
    cached_input: float
    output: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The tokens of one request; `corpus_tokens` are those of all documents."""

    corpus_tokens: int
    system_tokens: int = 500
    passages: int = 10
    passage_tokens: int = 500
    question_tokens: int = 500
    output_tokens: int = 0

    @property
    def found_tokens(self) -> int:
        """Of all passages together."""
        return self.passages * self.passage_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """One request in one mode, its prefix cached; dollars are None without prices."""

    cached_tokens: int
    uncached_tokens: int
    output_tokens: int
    dollars: float | None = None
    gpu_s: float | None = None
    gpu_dollars: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyPlan:
    """Both modes, and where they cost the same.

    Attributes:
        bills: by mode, each with its prefix cached.
        first: CAG's first request, which puts the corpus into the cache.
        even_corpus_tokens: the corpus, system prompt not counted, at which both modes cost the
            same at the vendor's; None without prices, infinite where cached tokens are free.
        even_requests: requests after which CAG has won back its first one on one's own GPUs.
    """

    request: Request
    prices: Prices | None
    prefill_tokens_per_s: float | None
    gpu_hour: float | None
    bills: Mapping[Mode, Bill]
    first: Bill
    even_corpus_tokens: float | None
    even_requests: float | None


def money_plan(
    request: Request,
    *,
    prices: Prices | None = None,
    prefill_tokens_per_s: float | None = None,
    gpu_hour: float | None = None,
) -> MoneyPlan:
    """What a request costs in both modes, as far as prices and speed are known."""

    def bill(cached: int, uncached: int) -> Bill:
        gpu_s = uncached / prefill_tokens_per_s if prefill_tokens_per_s else None
        known = gpu_s is not None and gpu_hour is not None
        return Bill(
            cached_tokens=cached,
            uncached_tokens=uncached,
            output_tokens=request.output_tokens,
            dollars=dollars(prices, cached, uncached, request.output_tokens) if prices else None,
            gpu_s=gpu_s,
            gpu_dollars=gpu_s * gpu_hour / _HOUR_S if known and gpu_s and gpu_hour else None,
        )

    prefix = request.system_tokens + request.corpus_tokens
    bills = {
        Mode.RAG: bill(request.system_tokens, request.found_tokens + request.question_tokens),
        Mode.CAG: bill(prefix, request.question_tokens),
    }
    first = bill(0, prefix + request.question_tokens)
    return MoneyPlan(
        request=request,
        prices=prices,
        prefill_tokens_per_s=prefill_tokens_per_s,
        gpu_hour=gpu_hour,
        bills=bills,
        first=first,
        even_corpus_tokens=even_corpus_tokens(request, prices) if prices else None,
        even_requests=_even_requests(bills, first),
    )


def dollars(prices: Prices, cached: float, uncached: float, output: float = 0) -> float:
    """A request's price at a vendor's."""
    total = cached * prices.cached_input + uncached * prices.input + output * prices.output
    return total / _MILLION


def even_corpus_tokens(request: Request, prices: Prices) -> float:
    """The corpus that costs as much cached as the passages do uncached.

    A smaller one is cheaper whole. Infinite where cached tokens cost nothing.
    """
    if prices.cached_input == 0:
        return float("inf")
    return request.found_tokens * prices.input / prices.cached_input


def _even_requests(bills: Mapping[Mode, Bill], first: Bill) -> float | None:
    rag, cag = bills[Mode.RAG].gpu_s, bills[Mode.CAG].gpu_s
    if rag is None or cag is None or first.gpu_s is None or rag <= cag:
        return None
    return (first.gpu_s - cag) / (rag - cag)


def money_json(plan: MoneyPlan) -> dict[str, object]:
    """The plan as JSON values; what isn't known is null."""
    request, even = plan.request, plan.even_corpus_tokens
    return {
        "schema_version": 1,
        "request": {
            "corpus_tokens": request.corpus_tokens,
            "system_tokens": request.system_tokens,
            "passages": request.passages,
            "passage_tokens": request.passage_tokens,
            "question_tokens": request.question_tokens,
            "output_tokens": request.output_tokens,
        },
        "modes": {mode.value: _bill_json(bill) for mode, bill in plan.bills.items()},
        "cag_first_request": _bill_json(plan.first),
        "break_even_corpus_tokens": None if even is None or even == float("inf") else even,
        "break_even_requests": plan.even_requests,
    }


def _bill_json(bill: Bill) -> dict[str, object]:
    return {
        "cached_tokens": bill.cached_tokens,
        "uncached_tokens": bill.uncached_tokens,
        "output_tokens": bill.output_tokens,
        "dollars": bill.dollars,
        "gpu_s": bill.gpu_s,
        "gpu_dollars": bill.gpu_dollars,
    }


def money_text(plan: MoneyPlan) -> str:
    """The plan for people, with its arithmetic."""
    lines: list[str] = []
    rows = [*((mode.value, bill) for mode, bill in plan.bills.items()), ("cag first", plan.first)]
    if plan.prices is not None:
        lines.append("at the vendor's prices, a request")
        lines += [_vendor_line(name, bill, plan.prices) for name, bill in rows]
        lines.append(f"  {_even_corpus(plan)}")
    if plan.prefill_tokens_per_s is not None:
        speed = f"{plan.prefill_tokens_per_s:,.0f} prompt tokens/s"
        price = f" at ${plan.gpu_hour:g} an hour" if plan.gpu_hour is not None else ""
        lines.append(f"on GPUs of your own, {speed}{price}, a request")
        lines += [_gpu_line(name, bill) for name, bill in rows]
        if plan.even_requests is not None:
            lines.append(f"  cag is cheaper from {plan.even_requests:,.1f} requests a warming on")
        else:
            lines.append("  cag computes no less than rag here")
    return "\n".join(lines) + "\n"


def _vendor_line(name: str, bill: Bill, prices: Prices) -> str:
    parts = []
    if bill.cached_tokens:
        parts.append(f"{bill.cached_tokens:,} cached x ${prices.cached_input:g}/M")
    parts.append(f"{bill.uncached_tokens:,} x ${prices.input:g}/M")
    if bill.output_tokens:
        parts.append(f"{bill.output_tokens:,} out x ${prices.output:g}/M")
    return f"  {name:<9}  ${bill.dollars:.6f}  {' + '.join(parts)}"


def _gpu_line(name: str, bill: Bill) -> str:
    money = f"  ${bill.gpu_dollars:.6f}" if bill.gpu_dollars is not None else ""
    return f"  {name:<9}  {bill.gpu_s:.3f} s{money}  {bill.uncached_tokens:,} tokens to compute"


def _even_corpus(plan: MoneyPlan) -> str:
    even, request, prices = plan.even_corpus_tokens, plan.request, plan.prices
    if even is None or prices is None or even == float("inf"):
        return "cached tokens cost nothing: the whole corpus is never dearer than passages"
    return (
        f"both cost the same with a corpus of {even:,.0f} tokens ({request.found_tokens:,} of "
        f"passages x ${prices.input:g} / ${prices.cached_input:g}); a smaller one is cheaper whole"
    )
