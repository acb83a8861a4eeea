"""What `foreword plan` makes of its options: a GPU, a model's folder, sizes of tiers."""

from collections.abc import Sequence
from pathlib import Path

import click

from app.commands.tokenizer import newest_model
from app.stack.paths import resolve
from app.stack.settings import DEFAULT_MODEL
from cache.kv_plan import Gpu, find_gpu
from cache.tiers import RedisTier, TierSettings
from cache.usage import Tier

_SIZED = (Tier.RAM, Tier.SSD, Tier.REDIS)


class PlanInputError(click.ClickException):
    """What was asked can't be planned; one sentence for people."""

    exit_code = 2


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
            return name, float(size)
        except ValueError:
            self.fail(f"{size!r} isn't a size in GiB: give {name}=16", param, ctx)


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
