"""What one file defines and imports, and which of its functions have to do with prompts."""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

from prompts.lint.python.vocabulary import is_model_call, is_prompt_builder

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

# A file with none of these words sends no prompt anywhere.
_PROMPT_WORDS = re.compile(
    rb"prompt|[\"']role[\"']|instructions|sglang|openai|anthropic|litellm|langchain|llm|ollama"
    rb"|/generate|completions?\b|Message\(",
    re.IGNORECASE,
)
# Methods that may send a prompt whatever their arguments are called.
_SENDING = frozenset(
    [
        "completion",
        "acompletion",
        "text_completion",
        "chat",
        "chat_completion",
        "create_chat_completion",
        "create_completion",
        "apply_chat_template",
        "invoke",
        "ainvoke",
        "batch",
        "abatch",
        "generate",
        "agenerate",
        "async_generate",
        "generate_content",
        "from_messages",
        "format_messages",
        "format_prompt",
        "predict",
        "apredict",
        "complete",
        "complete_async",
    ]
)
# Keywords by which any call may send one.
_SENDING_KEYWORDS = frozenset(
    [
        "messages",
        "system_prompt",
        "instructions",
        "system_instruction",
        "system_message",
        "prompt",
        "prompts",
    ]
)
# Methods that send what some keyword or mapping holds: a body, or all of the arguments.
_BY_KEYWORDS = frozenset(["create", "acreate", "parse", "stream", "post", "request"])
# Methods that send what they are given first, if it is a prompt.
_BY_ARGUMENT = frozenset(["stream", "astream"])
_BODY_KEYWORDS = frozenset(["json", "data", "content", "body", "input", None])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutineInfo:
    """A function or method. `owner` is the class it belongs to."""

    index: str
    node: FunctionNode
    owner: str | None
    static: bool


@dataclass(slots=True)
class ModuleIndex:
    """Names of one file. `relevant` are the functions that send prompts or call one that does."""

    imports: dict[str, str] = field(default_factory=dict)
    routines: dict[str, RoutineInfo] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    methods: dict[str, list[RoutineInfo]] = field(default_factory=lambda: defaultdict(list))
    relevant: set[str] = field(default_factory=set)
    module_relevant: bool = False


def may_hold_prompts(data: bytes) -> bool:
    """Whether a file is worth a closer look: a quick test on its bytes."""
    return _PROMPT_WORDS.search(data) is not None


def index_module(tree: ast.Module) -> ModuleIndex:
    """The names of a file, and the functions that matter."""
    scan = _Scan(ModuleIndex())
    scan.body(tree.body, owner=None, inside="")
    scan.mark_relevant()
    return scan.module


@dataclass(slots=True)
class _Scan:
    module: ModuleIndex
    calls: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    sending: set[str] = field(default_factory=set)

    def body(self, statements: list[ast.stmt], owner: str | None, inside: str) -> None:
        for statement in statements:
            self.visit(statement, owner, inside)

    def visit(self, node: ast.AST, owner: str | None, inside: str) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._routine(node, owner, inside)
                return
            case ast.ClassDef():
                self.module.classes[node.name] = node
                for decorator in node.decorator_list:
                    self.visit(decorator, None, inside)
                self.body(node.body, owner=node.name, inside=inside)
                return
            case ast.Import():
                self._import(node)
            case ast.ImportFrom():
                self._import_from(node)
            case ast.Call():
                self._call(node, inside)
        for child in ast.iter_child_nodes(node):
            self.visit(child, owner, inside)

    def _routine(self, node: FunctionNode, owner: str | None, inside: str) -> None:
        index = f"{owner}.{node.name}" if owner else node.name
        static = any(
            isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
        )
        info = RoutineInfo(index=index, node=node, owner=owner, static=static)
        self.module.routines[index] = info
        if owner:
            self.module.methods[owner].append(info)
        if inside:
            self.calls[inside].add(node.name)
        if is_prompt_builder(node.name) or any(_is_sgl(d) for d in node.decorator_list):
            self.sending.add(index)
        for child in (*node.decorator_list, node.args):
            self.visit(child, None, inside)
        self.body(node.body, owner=None, inside=index)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.module.imports[alias.asname or top] = alias.name if alias.asname else top

    def _import_from(self, node: ast.ImportFrom) -> None:
        source = "." * node.level + (node.module or "")
        for alias in node.names:
            self.module.imports[alias.asname or alias.name] = f"{source}.{alias.name}"

    def _call(self, node: ast.Call, inside: str) -> None:
        name = _last_name(node.func)
        self.calls[inside].add(name)
        keywords = {keyword.arg for keyword in node.keywords}
        if (
            name in _SENDING
            or (node.args and (is_model_call(name) or name in _BY_ARGUMENT))
            or keywords & _SENDING_KEYWORDS
            or (name in _BY_KEYWORDS and keywords & _BODY_KEYWORDS)
            or ("description" in keywords and "tool" in name.lower())
        ):
            self.sending.add(inside)

    def mark_relevant(self) -> None:
        """Those that send, and their callers, and so on."""
        relevant = set(self.sending)
        names = {index.rpartition(".")[2] for index in relevant}
        growing = True
        while growing:
            growing = False
            for index, called in self.calls.items():
                if index not in relevant and called & names:
                    relevant.add(index)
                    names.add(index.rpartition(".")[2])
                    growing = True
        self.module.module_relevant = "" in relevant
        self.module.relevant = relevant - {""}


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_sgl(decorator: ast.expr) -> bool:
    """Whether a decorator may be SGLang's `@sgl.function`."""
    return _last_name(decorator) == "function"


def own_fields(node: FunctionNode) -> set[str]:
    """Names of the object's own fields that a method uses."""
    return {each.attr for each in ast.walk(node) if _is_own(each)}


def changed_fields(node: FunctionNode) -> set[str]:
    """Those that a method sets, or calls a method of: `self.turns.append(...)`."""
    changed: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.Attribute(ctx=ast.Store(), attr=name) if _is_own(each):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name) as held)):
                changed |= {name} if _is_own(held) else set()
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=ast.Attribute(attr=name) as held):
                changed |= {name} if _is_own(held) else set()
    return changed


def _is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    match node:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case _:
            return False
