"""``foreword up``: the whole local stack in the foreground."""

import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import click

import app
from app.database import open_database
from app.stack.backoff import NEVER_RESTART, RestartPolicy
from app.stack.errors import StackError
from app.stack.running import RunningStack
from app.stack.settings import (
    DEFAULT_CACHE,
    DEFAULT_HOME,
    DEFAULT_MODEL,
    DEFAULT_PORT,
    EngineOptions,
    StackSettings,
)
from app.stack.stack import start_stack
from app.starting import read_settings, tell_strays, told_in_a_sentence
from app.telemetry import traces_url
from cache.tiers import LossySerde, TierSettings

SAMPLE_COLLECTION = "ferry"
MOST_REPLICAS = 64
POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option(
    "--model",
    metavar="PATH_OR_NAME",
    default=DEFAULT_MODEL,
    show_default=True,
    help="Model folder or hub name for SGLang.",
)
@click.option("--engine-url", metavar="URL", help="Use a running SGLang instead of starting one.")
@click.option(
    "--replicas",
    type=click.IntRange(1, MOST_REPLICAS),
    default=1,
    show_default=True,
    help="Engines to start, each with a pool of its own; they share the tiers.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Gateway's address.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Gateway's port; 0 takes a free one.",
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="FOREWORD_HOME",
    default=DEFAULT_HOME,
    show_default=True,
    help="State that may not be lost.",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="FOREWORD_CACHE",
    default=DEFAULT_CACHE,
    show_default=True,
    help="What can be made again: engine, models.",
)
@click.option(
    "--pool-tokens",
    type=click.IntRange(min=1),
    default=EngineOptions().pool_tokens,
    show_default=True,
    help="Tokens of KV in the engine's own memory (tier G1).",
)
@click.option("--no-tiers", is_flag=True, help="Without LMCache: the engine's own cache alone.")
@click.option(
    "--ram-gb", type=POSITIVE, default=1.0, show_default=True, help="GiB of RAM for KV (tier G2)."
)
@click.option(
    "--ssd-gb",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    help="GiB of disk for KV (tier G3); 0 for none.",
)
@click.option("--redis", is_flag=True, help="Start a Redis as a further tier (G4).")
@click.option(
    "--redis-gb", type=POSITIVE, default=1.0, show_default=True, help="GiB of RAM for that Redis."
)
@click.option(
    "--kv-serde",
    type=click.Choice([serde.value for serde in LossySerde]),
    help="Make KV smaller below RAM; answers change a little.",
)
@click.option(
    "--engine-args",
    metavar="TEXT",
    default="",
    help="Further options of SGLang, as on its own command line, such as "
    "'--tool-call-parser llama3'.",
)
@click.option("--no-restart", is_flag=True, help="Leave a process that ended stopped.")
@click.option("--cpu", is_flag=True, help="Run the engine on the CPU in spite of a GPU.")
def up(
    *,
    model: str,
    engine_url: str | None,
    replicas: int,
    host: str,
    port: int,
    home: Path,
    cache: Path,
    pool_tokens: int,
    no_tiers: bool,
    ram_gb: float,
    ssd_gb: float,
    redis: bool,
    redis_gb: float,
    kv_serde: str | None,
    engine_args: str,
    no_restart: bool,
    cpu: bool,
) -> None:
    """Start engines, cache tiers and gateway here, until Ctrl-C.

    The first time this installs the engine (about 2 GB) and makes the default model. One Ctrl-C
    stops everything in order, a second one kills it.
    """
    if no_tiers and (redis or kv_serde is not None):
        raise click.UsageError(
            "--redis is a tier, and --kv-serde is of tiers: leave --no-tiers away."
        )
    own = redis or model != DEFAULT_MODEL or pool_tokens != EngineOptions().pool_tokens
    own |= replicas > 1 or bool(engine_args)
    if engine_url is not None and own:
        raise click.UsageError("--engine-url brings its own model and tiers: leave those options.")
    with told_in_a_sentence():
        served = read_settings()
        tell_strays()
        secret = served.database.url
        database_url = None if secret is None else secret.get_secret_value()
        if database_url is not None:  # before the minutes that engines take
            open_database(database_url).dispose()
    settings = StackSettings(
        home=home,
        cache=cache,
        base_env=os.environ,
        model=model,
        engine_url=None if engine_url is None else engine_url.rstrip("/"),
        engine=EngineOptions(pool_tokens=pool_tokens, arguments=_words(engine_args)),
        replicas=replicas,
        tiers=None if no_tiers else TierSettings(ram_gb=ram_gb, ssd_gb=ssd_gb or None),
        kv_serde=None if kv_serde is None else LossySerde(kv_serde),
        redis=redis,
        redis_gb=redis_gb,
        host=host,
        port=port,
        cpu=cpu,
        traces_url=traces_url(served.telemetry, os.environ),
        tiers_otlp_url=served.telemetry.tiers_otlp_url,
        database_url=database_url,
        restart=NEVER_RESTART if no_restart else RestartPolicy(),
    )
    sys.exit(run(settings))


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise click.UsageError(f"--engine-args: {str(error).lower()} in {line!r}.") from error


def run(settings: StackSettings) -> int:
    """Runs the stack until a signal or a failure; returns the exit status."""
    _interrupt_on((signal.SIGTERM, signal.SIGHUP))
    try:
        with start_stack(settings, say=_say) as stack:
            click.echo(welcome(stack, settings))
            sys.stdout.flush()
            failure = stack.wait_for_failure()
            if failure is not None:
                raise failure
    except StackError as exc:
        click.echo(f"foreword: {exc}", err=True)
        return exc.exit_code
    except OSError as exc:
        place = settings.home if exc.filename is None else exc.filename
        click.echo(f"foreword: {place}: {exc.strerror}; `foreword doctor` looks closer", err=True)
        return StackError.exit_code
    except KeyboardInterrupt:
        _say("stopped")
        return 0
    return 0


def welcome(stack: RunningStack, settings: StackSettings) -> str:
    """The address, and the first commands to type."""
    url = stack.url or stack.engine_url
    return "\n".join(
        [
            f"Foreword is ready at {url} (Ctrl-C stops it). In another terminal:",
            "",
            *(f"  {command}" for command in first_commands(url, home_prefix(settings))),
            *(["", f"In a browser: {stack.url}/ui"] if stack.url else []),
        ]
    )


def first_commands(url: str, prefix: str) -> list[str]:
    """One request by curl, then a collection and two questions: the second one re-uses."""
    body = (
        '{"model": "default", "max_tokens": 60, "temperature": 0, '
        '"messages": [{"role": "user", "content": "What is a ferry?"}]}'
    )
    foreword = f"{prefix}{program()}"
    samples = shlex.quote(str(sample_folder()))
    return [
        f"curl -s {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'",
        f"{foreword} ingest {SAMPLE_COLLECTION} {samples}",
        f'{foreword} ask {SAMPLE_COLLECTION} "How long does the crossing take?" --mode cag',
        f'{foreword} ask {SAMPLE_COLLECTION} "Who is the captain of the Marigold?" --mode cag',
        f"{foreword} report",
    ]


def program() -> str:
    """How to call this program again from the working folder."""
    if shutil.which("foreword") is not None:
        return "foreword"
    beside = Path(sys.executable).with_name("foreword")
    return shlex.quote(str(_from_here(beside)))


def home_prefix(settings: StackSettings) -> str:
    """What the other terminal needs to find this stack."""
    if settings.home == DEFAULT_HOME:
        return ""
    return f"FOREWORD_HOME={shlex.quote(str(settings.home))} "


def sample_folder() -> Path:
    """The small collection that ships: inside the package in a wheel, else beside it."""
    package = Path(app.__file__).parent
    inside = package / "_samples" / SAMPLE_COLLECTION
    beside = package.parent / "samples" / SAMPLE_COLLECTION
    return _from_here(inside if inside.is_dir() else beside)


def _from_here(path: Path) -> Path:
    """Relative to the working folder where it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _interrupt_on(numbers: tuple[signal.Signals, ...]) -> None:
    """These signals do what Ctrl-C does, but for one that is ignored (``nohup``)."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _say(line: str) -> None:
    click.echo(line, err=True)
