"""What `foreword plan` makes of its options: a GPU, a model's folder, sizes of tiers."""

import math
from collections.abc import Sequence
from pathlib import Path

import click

from app.commands.tokenizer import newest_model
from app.stack.paths import resolve
from app.stack.settings import DEFAULT_MODEL
from cache.kv_plan import Gpu, find_gpu
from cache.tiers import RedisTier, TierSettings
from cache.usage import Tier

LARGEST_GIB = 1e9
MOST_TOKENS = 10**12
_SIZED = (Tier.RAM, Tier.SSD, Tier.REDIS)


class PlanInputError(click.ClickException):
    """What was asked can't be planned; one sentence for people."""

    exit_code = 2


class Amount(click.FloatRange):
    """A number above 0 and not above `most`, so neither NaN nor infinite."""

    def __init__(self, most: float = LARGEST_GIB, *, open_end: bool = False) -> None:
        super().__init__(0, most, min_open=True, max_open=open_end)

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} isn't a number", param, ctx)
        return number


class TierSize(click.ParamType[tuple[str, float]]):
    """`ram=16`: a tier and its size in GiB."""

    name = "tier"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """The tier's name and GiB."""
        name, _, size = str(value).partition("=")
        if name not in _SIZED:
            self.fail(f"{name!r} isn't a tier: give ram=16, ssd=200 or redis=32", param, ctx)
        try:
            gib = float(size)
        except ValueError:
            gib = math.nan
        if not abs(gib) <= LARGEST_GIB:  # NaN neither
            self.fail(f"{size!r} isn't a size in GiB: give {name}=16", param, ctx)
        return name, gib


def gpu_of(name: str | None, memory_gib: float | None) -> Gpu | None:
    """The GPU by its name or its memory; None where neither was given.

    Raises:
        GpuNotFoundError: a name that isn't known.
        PlanInputError: both were given.
    """
    if name is not None and memory_gib is not None:
        raise PlanInputError("give --gpu or --gpu-memory-gib, not both")
    if name is not None:
        return find_gpu(name)
    return Gpu(name=None, total_mib=memory_gib * 1024) if memory_gib is not None else None


def free_mib_of(free_gib: float | None, gpu: Gpu | None) -> float | None:
    """Free memory in MiB; None where it wasn't told.

    Raises:
        PlanInputError: no GPU was told beside it, or it has less memory.
    """
    if free_gib is None:
        return None
    if gpu is None:
        raise PlanInputError("--free-gib needs --gpu or --gpu-memory-gib beside it")
    if free_gib * 1024 > gpu.total_mib:
        total = f"{gpu.total_mib / 1024:,.2f} GiB"
        raise PlanInputError(f"--free-gib is {free_gib:g}, but the GPU has only {total} in all")
    return free_gib * 1024


def model_folder(model: str, cache: Path) -> Path:
    """Where a model's config.json is.

    Raises:
        PlanInputError: neither a folder, a file, nor the default model once it was made.
    """
    path = resolve(Path(model))
    if path.exists():
        return path
    made = newest_model(cache) if model == DEFAULT_MODEL else None
    if made is not None:
        return made
    if model == DEFAULT_MODEL:
        raise PlanInputError(f"{model} isn't made yet: `foreword up` makes it once")
    raise PlanInputError(
        f"there is no folder or file {model!r}; nothing is downloaded here: fetch the model's "
        "config.json, and model.safetensors.index.json for its weights, and give their folder"
    )


def tier_settings(
    sizes: Sequence[tuple[str, float]], *, chunk_tokens: int, page_tokens: int
) -> TierSettings | None:
    """Settings with these sizes; None where no tier was named.

    Raises:
        TierSettingsError: a size or chunk that LMCache would refuse.
    """
    if not sizes:
        return None
    gib = dict(sizes)
    redis = None
    if Tier.REDIS in gib:
        redis = RedisTier(host="redis", port=6379, max_gb=gib[Tier.REDIS])
    return TierSettings(
        chunk_tokens=chunk_tokens,
        page_tokens=page_tokens,
        ram_gb=gib.get(Tier.RAM, 1.0),
        ssd_gb=gib.get(Tier.SSD),
        redis=redis,
    )
