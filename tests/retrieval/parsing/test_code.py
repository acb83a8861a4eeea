"""Source code: definitions under their qualified names, every character kept."""

import pytest

from retrieval.parsing import parse
from tests.retrieval.parsing.files import shown

PYTHON = '''"""Module."""
import os

LIMIT = 1


# Says hello.
@cached
def hello(name):
    def inner(): ...
    return name


class Ferry(Ship):
    """A ferry."""

    def sail(self):
        return 1

    class Deck:
        def clean(self): ...


print(Ferry)
'''

GOLDEN = {
    "a.py": (
        PYTHON,
        [
            ((), '"""Module."""\nimport os'),
            ((), "LIMIT = 1"),
            (
                ("hello",),
                "# Says hello.\n@cached\ndef hello(name):\n    def inner(): ...\n    return name",
            ),
            (("Ferry",), 'class Ferry(Ship):\n    """A ferry."""'),
            (("Ferry", "sail"), "def sail(self):\n        return 1"),
            (("Ferry", "Deck"), "class Deck:"),
            (("Ferry", "Deck", "clean"), "def clean(self): ..."),
            ((), "print(Ferry)"),
        ],
    ),
    "a.js": (
        "import x from 'y';\nexport class A {\n  m() { return 1 }\n}\n"
        "export const f = (a) => a;\nconst n = 1;\nfunction g() {}\n",
        [
            ((), "import x from 'y';"),
            (("A",), "export class A {"),
            (("A", "m"), "m() { return 1 }\n}"),
            (("f",), "export const f = (a) => a;"),
            ((), "const n = 1;"),
            (("g",), "function g() {}"),
        ],
    ),
    "a.ts": (
        "/** Doc. */\nexport class A {\n  m(): void {}\n}\nnamespace N { export function h() {} }\n"
        "interface I { a: string }\ntype T = string;\n",
        [
            (("A",), "/** Doc. */\nexport class A {"),
            (("A", "m"), "m(): void {}\n}"),
            (("N",), "namespace N {"),
            (("N", "h"), "export function h() {} }"),
            (("I",), "interface I { a: string }"),
            (("T",), "type T = string;"),
        ],
    ),
    "a.tsx": ("function V() { return <b>x</b>; }", [(("V",), "function V() { return <b>x</b>; }")]),
    "A.java": (
        "package p;\n\npublic class A {\n  int x;\n  /** Doc. */\n  A() {}\n  void m() {}\n}\n",
        [
            ((), "package p;"),
            (("A",), "public class A {\n  int x;"),
            (("A", "A"), "/** Doc. */\n  A() {}"),
            (("A", "m"), "void m() {}\n}"),
        ],
    ),
    "a.go": (
        "package p\n\n// F is.\nfunc F() {}\n\ntype T struct{ a int }\n\nfunc (t *T) M() {}\n",
        [
            ((), "package p"),
            (("F",), "// F is.\nfunc F() {}"),
            (("T",), "type T struct{ a int }"),
            (("T", "M"), "func (t *T) M() {}"),
        ],
    ),
    "a.rs": (
        "/// Doc.\n#[derive(Debug)]\npub struct S { a: i32 }\nimpl S { fn m(&self) {} }\n"
        "impl T for S { fn n() {} }\nmod z { pub fn k() {} }\n",
        [
            (("S",), "/// Doc.\n#[derive(Debug)]\npub struct S { a: i32 }"),
            (("S",), "impl S {"),
            (("S", "m"), "fn m(&self) {} }"),
            (("S",), "impl T for S {"),
            (("S", "n"), "fn n() {} }"),
            (("z",), "mod z {"),
            (("z", "k"), "pub fn k() {} }"),
        ],
    ),
    "a.h": (
        "#ifndef H\n#define H\nstruct s { int a; };\ntypedef struct { int b; } t;\n"
        "/* Doc. */\nstatic int *f(int a) { return 0; }\n#endif\n",
        [
            ((), "#ifndef H\n#define H"),
            (("s",), "struct s { int a; };"),
            (("t",), "typedef struct { int b; } t;"),
            (("f",), "/* Doc. */\nstatic int *f(int a) { return 0; }"),
            ((), "#endif"),
        ],
    ),
    "a.cpp": (
        "namespace n {\nclass A {\n  int m() { return 1; }\n};\nint A::k() { return 2; }\n"
        "template <typename T> T g(T x) { return x; }\n}\n",
        [
            (("n",), "namespace n {"),
            (("n", "A"), "class A {"),
            (("n", "A", "m"), "int m() { return 1; }\n};"),
            (("n", "A", "k"), "int A::k() { return 2; }"),
            (("n", "g"), "template <typename T> T g(T x) { return x; }\n}"),
        ],
    ),
    "a.cs": (
        "namespace N {\n  class A {\n    int M() { return 1; }\n    int P { get; }\n  }\n}\n",
        [
            (("N",), "namespace N {"),
            (("N", "A"), "class A {"),
            (("N", "A", "M"), "int M() { return 1; }"),
            (("N", "A", "P"), "int P { get; }\n  }\n}"),
        ],
    ),
    "a.rb": (
        "module M\n  class A\n    def m; 1; end\n    def self.s; end\n  end\nend\n",
        [
            (("M",), "module M"),
            (("M", "A"), "class A"),
            (("M", "A", "m"), "def m; 1; end"),
            (("M", "A", "s"), "def self.s; end\n  end\nend"),
        ],
    ),
    "a.php": (
        "<?php\nclass A {\n  function m() {}\n}\nfunction f() {}\n",
        [
            ((), "<?php"),
            (("A",), "class A {"),
            (("A", "m"), "function m() {}\n}"),
            (("f",), "function f() {}"),
        ],
    ),
    "a.sh": (
        "set -e\nf() { echo 1; }\nfunction g { echo 2; }\nf\n",
        [
            ((), "set -e"),
            (("f",), "f() { echo 1; }"),
            (("g",), "function g { echo 2; }"),
            ((), "f"),
        ],
    ),
    "a.kt": (
        "fun a() {\n  x\n\n  y\n}\n\nfun b() {}\n",
        [((), "fun a() {\n  x\n\n  y\n}"), ((), "fun b() {}")],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_definitions_are_blocks_under_their_names(name: str) -> None:
    source, blocks = GOLDEN[name]
    document = parse(name, source.encode())
    assert document.text == source
    assert [(path, text) for _, path, text in shown(document)] == blocks


def test_a_script_without_an_ending_is_known_by_its_first_line() -> None:
    document = parse("run", b"#!/usr/bin/env python3\nX = 1\n\ndef f():\n    pass\n")
    assert document.media_type == "text/x-python"
    assert document.blocks[-1].path == ("f",)


def test_a_syntax_error_costs_no_text() -> None:
    document = parse("a.py", b"def broken(:\n  )\n\ndef fine():\n    pass\n")
    assert "".join(text for _, _, text in shown(document)).count("def") == 2


def test_offsets_are_characters_not_bytes() -> None:
    document = parse("a.py", 'X = "größer 🚢"\n\n\ndef f():\n    pass\n'.encode())
    assert [text for _, _, text in shown(document)] == ['X = "größer 🚢"', "def f():\n    pass"]


def test_code_that_nests_deep_is_read() -> None:
    deep = "class A:\n" + "".join(f"{' ' * n}class B{n}:\n" for n in range(1, 300))
    assert parse("a.py", deep.encode()).text == deep
    assert parse("a.js", b"f(" * 50_000).blocks
