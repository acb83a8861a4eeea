"""What lets SGLang be imported: three finders."""

import importlib.util
import sys
from collections.abc import Iterator

import pytest

from foreword_cpu.imports.notebook import NotebookFinder
from foreword_cpu.imports.torchvision_ops import TorchvisionOpsFinder
from foreword_cpu.imports.triton_stub import TritonStubFinder, _triton_block


@pytest.fixture
def without_ipython(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
        monkeypatch.delitem(sys.modules, name)
    finder = NotebookFinder()
    sys.meta_path.insert(0, finder)
    yield
    sys.meta_path.remove(finder)
    for name in ("IPython.display", "IPython"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("without_ipython")
def test_ipythons_two_names_import_and_say_what_is_missing_when_called() -> None:
    display = importlib.import_module("IPython.display")

    with pytest.raises(ModuleNotFoundError, match=r"IPython\.display\.HTML needs IPython"):
        display.HTML("<b>")


@pytest.mark.parametrize("finder", [NotebookFinder(), TorchvisionOpsFinder(), TritonStubFinder()])
def test_a_finder_leaves_other_modules_alone(finder: NotebookFinder) -> None:
    assert finder.find_spec("json") is None


def test_triton_is_not_found_where_sglang_is_not_installed() -> None:
    assert importlib.util.find_spec("sglang") is None, "the gateway's environment has no SGLang"
    assert TritonStubFinder().find_spec("triton") is None


def test_a_stub_file_of_another_release_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="has no Triton stub any more"):
        _triton_block("def install_platform_stubs():\n    pass\n")


def test_only_tritons_block_of_the_stub_file_is_taken() -> None:
    code = (
        "def install_platform_stubs():\n"
        "    if platform != 'darwin':\n        return\n"
        "    if 'triton' not in sys.modules:\n        made = 1\n"
        "    torch.mps = None\n"
    )

    assert _triton_block(code).body[0].lineno == 5
