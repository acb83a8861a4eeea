"""Makes `import sglang` work here. Imported at interpreter start by `foreword_cpu.pth`.

An SGLang plugin would be too late: the processes that SGLang starts import its modules before they
load plugins. So this only appends finders to `sys.meta_path`, which cost nothing until one of three
modules is asked for.
"""

import os
import sys

from foreword_cpu.imports.notebook import NotebookFinder
from foreword_cpu.imports.torchvision_ops import TorchvisionOpsFinder
from foreword_cpu.imports.triton_stub import TritonStubFinder

sys.meta_path.insert(0, TorchvisionOpsFinder())
# Last: they are asked only when the real package is not installed.
sys.meta_path.append(TritonStubFinder())
sys.meta_path.append(NotebookFinder())

# Read when SGLang's model registry is imported, in each process.
os.environ.setdefault("SGLANG_EXTERNAL_MODEL_PACKAGE", "foreword_cpu.architectures")
