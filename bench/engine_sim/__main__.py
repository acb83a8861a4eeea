"""`python -m bench.engine_sim`: one simulated replica in the foreground."""

import sys
from pathlib import Path

import click

from bench.engine_sim.app import create_app
from bench.engine_sim.config import (
    ClockConfig,
    EventsConfig,
    EvictionPolicy,
    SimulatorConfig,
    TierConfig,
)
from bench.engine_sim.server import listen, make_server
from bench.errors import BenchError

_CLOCK = ClockConfig()


@click.command(context_settings={"show_default": True})
@click.option(
    "--model-path",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder with tokenizer.json, tokenizer_config.json and a chat template.",
)
@click.option("--served-model-name", default=None, help="Public name.  [default: the folder]")
@click.option("--host", default="127.0.0.1")
@click.option("--port", type=click.IntRange(0, 65535), default=30000, help="0 takes a free one.")
@click.option("--page-size", default=16, help="Tokens per page.")
@click.option("--max-total-tokens", default=16_000, help="Tokens in the KV pool.")
@click.option("--context-length", default=8192, help="Tokens in the window.")
@click.option("--max-running-requests", default=64)
@click.option("--chunked-prefill-size", default=4096, help="Tokens of one prefill batch.")
@click.option(
    "--radix-eviction-policy",
    type=click.Choice([policy.value for policy in EvictionPolicy]),
    default=EvictionPolicy.LRU.value,
)
@click.option("--enable-priority-scheduling", is_flag=True)
@click.option("--label", "labels", multiple=True, help="Custom label to count; may be repeated.")
@click.option("--tier-tokens", default=0, help="Tokens in the tier behind the pool; 0: no tier.")
@click.option("--tier-chunk-tokens", default=64)
@click.option("--kv-events-endpoint", default=None, help="Publish KV events here.")
@click.option("--kv-events-replay-endpoint", default=None)
@click.option("--kv-events-topic", default="")
@click.option(
    "--kv-events-buffer-steps", default=10_000, help="Batches of events that can be replayed."
)
@click.option("--prefill-tokens-per-s", default=_CLOCK.prefill_tokens_per_s)
@click.option("--decode-step-s", default=_CLOCK.decode_step_s)
@click.option("--eos-every-tokens", type=int, default=None, help="Mean length of an answer.")
@click.option("--speedup", default=1.0, help="Simulated seconds in a real one.")
def main(
    *,
    model_path: Path,
    served_model_name: str | None,
    host: str,
    port: int,
    page_size: int,
    max_total_tokens: int,
    context_length: int,
    max_running_requests: int,
    chunked_prefill_size: int,
    radix_eviction_policy: str,
    enable_priority_scheduling: bool,
    labels: tuple[str, ...],
    tier_tokens: int,
    tier_chunk_tokens: int,
    kv_events_endpoint: str | None,
    kv_events_replay_endpoint: str | None,
    kv_events_topic: str,
    kv_events_buffer_steps: int,
    prefill_tokens_per_s: float,
    decode_step_s: float,
    eos_every_tokens: int | None,
    speedup: float,
) -> None:
    """Serve SGLang's protocol from a simulated engine: real re-use, stated times.

    The first line on stdout is its URL. Faults are ordered with POST /simulator/faults.
    """
    tier = TierConfig(chunk_tokens=tier_chunk_tokens, capacity_tokens=tier_tokens)
    events = kv_events_endpoint and EventsConfig(
        endpoint=kv_events_endpoint,
        replay_endpoint=kv_events_replay_endpoint,
        topic=kv_events_topic,
        buffer_steps=kv_events_buffer_steps,
    )
    try:
        config = SimulatorConfig(
            model_path=model_path,
            served_model_name=served_model_name,
            page_size=page_size,
            capacity_tokens=max_total_tokens,
            context_tokens=context_length,
            max_running_requests=max_running_requests,
            chunked_prefill_tokens=chunked_prefill_size,
            eviction=EvictionPolicy(radix_eviction_policy),
            priority_scheduling=enable_priority_scheduling,
            labels=labels,
            tier=tier if tier_tokens else None,
            events=events or None,
            eos_every_tokens=eos_every_tokens,
            clock=ClockConfig(
                prefill_tokens_per_s=prefill_tokens_per_s,
                decode_step_s=decode_step_s,
                speedup=speedup,
            ),
        )
        listener = listen(host, port)
        app = create_app(config)
    except BenchError as error:
        click.echo(f"engine_sim: {error}", err=True)
        sys.exit(3)
    click.echo(f"http://{host}:{listener.getsockname()[1]}")
    sys.stdout.flush()
    make_server(app).run([listener])


if __name__ == "__main__":
    main()
