"""An exchange as a line of `requests.jsonl`. Pure."""

from dataclasses import dataclass
from hashlib import sha256

from bench.load.pool import Exchange
from bench.load.stream import Streamed, error_text, read_stream, read_whole
from bench.run_folder import Phase, RequestLine
from bench.workloads.file import WorkloadRequest

_DIGITS = 7
"""Of seconds: a tenth of a microsecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """When a request was to go and went; by the clock of the pieces."""

    scheduled: float | None
    sent: float


def read_answer(exchange: Exchange) -> Streamed:
    """What the exchange's body says."""
    if exchange.status != 200 or not exchange.pieces:
        return Streamed()
    if exchange.content_type.startswith(b"text/event-stream"):
        return read_stream(exchange.pieces)
    return read_whole(exchange.pieces)


def line_of(
    request: WorkloadRequest,
    exchange: Exchange,
    answer: Streamed,
    times: Sent,
    *,
    began: float,
    phase: Phase,
) -> RequestLine:
    """The line; times from `began` on."""
    first = answer.times[0] if answer.times else None

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(moment - began, _DIGITS)

    return RequestLine(
        id=request.id,
        session=request.session,
        turn=request.turn,
        phase=phase,
        scheduled_s=since(times.scheduled),
        sent_s=since(times.sent),
        first_token_s=since(first),
        last_token_s=since(answer.times[-1] if answer.times else None),
        done_s=since(exchange.ended),
        chunk_s=tuple(round(at - (first or at), _DIGITS) for at in answer.times),
        status=exchange.status,
        error=_error(exchange, answer),
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        cached_tokens=answer.cached_tokens,
        by_tier=answer.by_tier,
        ideal_tokens=answer.ideal_tokens,
        verdict=answer.verdict,
        answer_sha256=sha256(answer.text.encode(errors="surrogatepass")).hexdigest()
        if answer.times
        else None,
        labels=request.labels,
    )


def _error(exchange: Exchange, answer: Streamed) -> str | None:
    if exchange.problem is not None:
        return exchange.problem
    if exchange.status != 200:
        return f"HTTP {exchange.status}: {error_text(exchange.body)}"
    if answer.error is not None:
        return answer.error
    return None if answer.finished else "the stream ended before the answer did"
