"""The dense architectures that an engine finds without importing all of SGLang's models.

SGLang imports some 250 model modules in the process that needs one of them. It has a short cut for
models that are registered from outside (`SGLANG_EXTERNAL_MODEL_PACKAGE`, set by
`foreword_cpu.startup`): those are looked up first, and only another architecture makes it import
the rest.

Source: sglang/srt/models/registry.py:110-117, 172-178 (sglang 0.5.23).
"""
