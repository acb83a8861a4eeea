"""`foreword plan` with prices: what a request costs by retrieval and with the whole corpus."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.commands.gateway import checked, gateway
from app.commands.plan_options import MOST_TOKENS, Amount, PlanInputError
from app.modes.money import Prices, Request, money_json, money_plan, money_text

Command = TypeVar("Command", bound=Callable[..., Any])
_TOKENS = click.IntRange(0, MOST_TOKENS)
_PRICE = click.FloatRange(0, 1e6)

_OPTIONS = (
    click.option("--input-price", type=_PRICE, help="a vendor's, dollars for a million tokens"),
    click.option(
        "--cached-price", type=_PRICE, help="of cached input tokens  [default: as --input-price]"
    ),
    click.option("--output-price", type=_PRICE, default=0.0, help="of output tokens"),
    click.option("--gpu-hour", type=Amount(), help="dollars for an hour of the engine's GPUs"),
    click.option(
        "--prefill-speed",
        type=Amount(),
        help="prompt tokens/s  [default: as measured, with --gpu-hour]",
    ),
    click.option("--system-tokens", type=_TOKENS, default=500, show_default=True),
    click.option("--passages", type=_TOKENS, default=10, show_default=True),
    click.option("--passage-tokens", type=_TOKENS, default=500, show_default=True),
    click.option("--question-tokens", type=_TOKENS, default=500, show_default=True),
    click.option("--output-tokens", type=_TOKENS, default=0, show_default=True),
)


def pricing_options(command: Command) -> Command:
    """The options of a plan in money."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wants_prices(pricing: dict[str, Any]) -> bool:
    """Whether anything was given that makes it a plan in money."""
    return any(pricing[name] is not None for name in ("input_price", "gpu_hour", "prefill_speed"))


def priced_plan(
    pricing: dict[str, Any], *, corpus_tokens: int | None, output: str, url: str | None, home: Path
) -> str:
    """The plan in money, as text or JSON.

    Raises:
        PlanInputError: a figure is missing.
    """
    if corpus_tokens is None:
        raise PlanInputError("--corpus-tokens is missing: how many tokens all documents have")
    speed, gpu_hour = pricing["prefill_speed"], pricing["gpu_hour"]
    if speed is None and gpu_hour is not None:
        speed = _measured_speed(url, home)
    plan = money_plan(
        Request(
            corpus_tokens=corpus_tokens,
            system_tokens=pricing["system_tokens"],
            passages=pricing["passages"],
            passage_tokens=pricing["passage_tokens"],
            question_tokens=pricing["question_tokens"],
            output_tokens=pricing["output_tokens"],
        ),
        prices=_prices(pricing),
        prefill_tokens_per_s=speed,
        gpu_hour=gpu_hour,
    )
    if output == "text":
        return money_text(plan).rstrip("\n")
    return json.dumps(money_json(plan), indent=2)


def _prices(pricing: dict[str, Any]) -> Prices | None:
    price, cached = pricing["input_price"], pricing["cached_price"]
    if price is None:
        if cached is not None:
            raise PlanInputError("--cached-price needs --input-price beside it")
        return None
    return Prices(
        input=price,
        cached_input=price if cached is None else cached,
        output=pricing["output_price"],
    )


def _measured_speed(url: str | None, home: Path) -> float:
    with gateway(url, home) as client:
        speed = checked(client.get("/foreword/plan")).json()["engine"]["prefill_tokens_per_s"]
    if not isinstance(speed, int | float):
        problem = "the engine has computed too little to tell its speed: give --prefill-speed"
        raise PlanInputError(problem)
    return float(speed)
