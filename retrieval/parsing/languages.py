"""Programming languages: which files are theirs, and which syntax makes a definition.

A language without a grammar here is cut at empty lines outside indentation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tree_sitter import Language as Grammar

from retrieval.parsing.layout import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A programming language.

    Attributes:
        module, function: where the grammar comes from; empty for none.
        containers: kinds of nodes that have a name and hold definitions.
        definitions: kinds of nodes that have a name and are kept together.
        wrappers: kinds of nodes that stand around one of these and belong to it.
        transparent: kinds of nodes whose children count as if they stood outside.
    """

    name: str
    media_type: str
    module: str = ""
    function: str = "language"
    containers: frozenset[str] = frozenset()
    definitions: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    transparent: frozenset[str] = frozenset()

    def grammar(self) -> Grammar | None:
        """The grammar, loaded when it is first asked for; None where there is none."""
        if not self.module:
            return None
        make: Callable[[], object] = getattr(import_module(self.module), self.function)
        return Grammar(make())


_SCRIPT_DEFINITIONS = words(
    "function_declaration generator_function_declaration method_definition lexical_declaration"
)
_TYPED_DEFINITIONS = _SCRIPT_DEFINITIONS | words(
    """
    interface_declaration type_alias_declaration enum_declaration function_signature
    abstract_method_signature
    """
)
_TYPED_CONTAINERS = words("class_declaration abstract_class_declaration internal_module module")

# Header guards stand around whole files.
_C_TRANSPARENT = words(
    """
    preproc_ifdef preproc_if preproc_else preproc_elif preproc_elifdef linkage_specification
    declaration_list
    """
)

_PYTHON = Language(
    name="Python",
    media_type="text/x-python",
    module="tree_sitter_python",
    containers=words("class_definition"),
    definitions=words("function_definition"),
    wrappers=words("decorated_definition"),
)
_JAVASCRIPT = Language(
    name="JavaScript",
    media_type="text/javascript",
    module="tree_sitter_javascript",
    containers=words("class_declaration"),
    definitions=_SCRIPT_DEFINITIONS,
    wrappers=words("export_statement"),
)
_TYPESCRIPT = Language(
    name="TypeScript",
    media_type="application/typescript",
    module="tree_sitter_typescript",
    function="language_typescript",
    containers=_TYPED_CONTAINERS,
    definitions=_TYPED_DEFINITIONS,
    wrappers=words("export_statement ambient_declaration expression_statement"),
)
_TSX = Language(
    name="TSX",
    media_type="text/tsx",
    module="tree_sitter_typescript",
    function="language_tsx",
    containers=_TYPED_CONTAINERS,
    definitions=_TYPED_DEFINITIONS,
    wrappers=words("export_statement ambient_declaration expression_statement"),
)
_JAVA = Language(
    name="Java",
    media_type="text/x-java",
    module="tree_sitter_java",
    containers=words("class_declaration interface_declaration enum_declaration record_declaration"),
    definitions=words(
        """
        method_declaration constructor_declaration compact_constructor_declaration
        annotation_type_declaration
        """
    ),
)
_GO = Language(
    name="Go",
    media_type="text/x-go",
    module="tree_sitter_go",
    definitions=words("function_declaration method_declaration type_declaration"),
)
_RUST = Language(
    name="Rust",
    media_type="text/x-rust",
    module="tree_sitter_rust",
    containers=words("impl_item trait_item mod_item"),
    definitions=words(
        """
        function_item function_signature_item struct_item enum_item union_item macro_definition
        type_item
        """
    ),
)
_C = Language(
    name="C",
    media_type="text/x-c",
    module="tree_sitter_c",
    definitions=words("function_definition struct_specifier enum_specifier union_specifier"),
    wrappers=words("type_definition"),
    transparent=_C_TRANSPARENT,
)
_CPP = Language(
    name="C++",
    media_type="text/x-c++",
    module="tree_sitter_cpp",
    containers=words("class_specifier struct_specifier namespace_definition"),
    definitions=words("function_definition enum_specifier union_specifier alias_declaration"),
    wrappers=words("template_declaration type_definition"),
    transparent=_C_TRANSPARENT,
)
_CSHARP = Language(
    name="C#",
    media_type="text/x-csharp",
    module="tree_sitter_c_sharp",
    containers=words(
        """
        class_declaration struct_declaration interface_declaration record_declaration
        namespace_declaration
        """
    ),
    definitions=words(
        """
        method_declaration constructor_declaration property_declaration enum_declaration
        delegate_declaration operator_declaration
        """
    ),
)
_RUBY = Language(
    name="Ruby",
    media_type="text/x-ruby",
    module="tree_sitter_ruby",
    containers=words("class module"),
    definitions=words("method singleton_method"),
)
_PHP = Language(
    name="PHP",
    media_type="text/x-php",
    module="tree_sitter_php",
    function="language_php",
    containers=words(
        """
        class_declaration interface_declaration trait_declaration enum_declaration
        namespace_definition
        """
    ),
    definitions=words("function_definition method_declaration"),
)
_BASH = Language(
    name="Bash",
    media_type="application/x-sh",
    module="tree_sitter_bash",
    definitions=words("function_definition"),
)


def _plain(name: str, media_type: str) -> Language:
    return Language(name=name, media_type=media_type)


_BY_ENDING = {
    ".py": _PYTHON,
    ".pyi": _PYTHON,
    ".js": _JAVASCRIPT,
    ".mjs": _JAVASCRIPT,
    ".cjs": _JAVASCRIPT,
    ".jsx": _JAVASCRIPT,
    ".ts": _TYPESCRIPT,
    ".mts": _TYPESCRIPT,
    ".cts": _TYPESCRIPT,
    ".tsx": _TSX,
    ".java": _JAVA,
    ".go": _GO,
    ".rs": _RUST,
    ".c": _C,
    ".h": _C,
    ".cc": _CPP,
    ".cpp": _CPP,
    ".cxx": _CPP,
    ".hh": _CPP,
    ".hpp": _CPP,
    ".hxx": _CPP,
    ".cs": _CSHARP,
    ".rb": _RUBY,
    ".php": _PHP,
    ".sh": _BASH,
    ".bash": _BASH,
    ".kt": _plain("Kotlin", "text/x-kotlin"),
    ".kts": _plain("Kotlin", "text/x-kotlin"),
    ".swift": _plain("Swift", "text/x-swift"),
    ".scala": _plain("Scala", "text/x-scala"),
    ".lua": _plain("Lua", "text/x-lua"),
    ".pl": _plain("Perl", "text/x-perl"),
    ".pm": _plain("Perl", "text/x-perl"),
    ".r": _plain("R", "text/x-r"),
    ".jl": _plain("Julia", "text/x-julia"),
    ".hs": _plain("Haskell", "text/x-haskell"),
    ".ex": _plain("Elixir", "text/x-elixir"),
    ".exs": _plain("Elixir", "text/x-elixir"),
    ".erl": _plain("Erlang", "text/x-erlang"),
    ".clj": _plain("Clojure", "text/x-clojure"),
    ".dart": _plain("Dart", "text/x-dart"),
    ".m": _plain("Objective-C", "text/x-objective-c"),
    ".sql": _plain("SQL", "application/sql"),
    ".css": _plain("CSS", "text/css"),
    ".scss": _plain("SCSS", "text/x-scss"),
    ".proto": _plain("Protocol Buffers", "text/x-protobuf"),
    ".tf": _plain("Terraform", "text/x-terraform"),
}
_BY_INTERPRETER = {
    b"python": _PYTHON,
    b"bash": _BASH,
    b"sh": _BASH,
    b"zsh": _BASH,
    b"node": _JAVASCRIPT,
    b"ruby": _RUBY,
    b"php": _PHP,
    b"perl": _BY_ENDING[".pl"],
}


def language_of_ending(ending: str) -> Language | None:
    """The language of files with this ending (lower case, with its dot)."""
    return _BY_ENDING.get(ending)


def language_of_interpreter(first_line: bytes) -> Language | None:
    """The language of a script, by its `#!` line."""
    if not first_line.startswith(b"#!"):
        return None
    words = first_line[2:].split()
    names = [word.rsplit(b"/", 1)[-1].rstrip(b"0123456789.") for word in words]
    return next((_BY_INTERPRETER[name] for name in names if name in _BY_INTERPRETER), None)
