"""What SGLang 0.5.23 lacks to run on a plain CPU, supplied from outside of it.

Nothing here does anything unless `SGLANG_USE_CPU_ENGINE=1`. There are two ways in:

- `foreword_cpu.startup`, from a `.pth` file at interpreter start: makes SGLang importable
  (`foreword_cpu.imports`).
- `foreword_cpu.plugin`, through SGLang's entry point group `sglang.srt.plugins`: replaces single
  functions, one module of this package for each. Every module says which line it stands in for.

`sgl_kernel`, beside this package, is the stub of SGLang's kernel package.
"""
