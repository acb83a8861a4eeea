"""Runs a file's functions over values instead of data, and collects the prompts they send.

Every function that has to do with prompts is run with unknown arguments, and once more wherever
the module itself calls it, with what it is called with there. A step budget bounds the work.
"""

import ast
import builtins
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from prompts.lint.python import calls
from prompts.lint.python.arguments import bind_arguments, bind_unknown
from prompts.lint.python.frame import Frame, dotted, union
from prompts.lint.python.methods import Call
from prompts.lint.python.module_index import (
    FunctionNode,
    ModuleIndex,
    RoutineInfo,
    changed_fields,
    own_fields,
)
from prompts.lint.python.operators import as_items
from prompts.lint.python.sinks import SentPrompt, holds_messages
from prompts.lint.python.statements import execute, joined
from prompts.lint.python.taints import (
    CLEAN,
    Kind,
    Span,
    Taint,
    Taints,
    request_taints,
)
from prompts.lint.python.values import (
    UNKNOWN,
    Entries,
    Item,
    Items,
    Opaque,
    Reference,
    Routine,
    Text,
    Value,
    concatenated,
    join,
    taints_of,
)
from prompts.lint.python.vocabulary import is_prompt_builder, is_system_text

_MAX_DEPTH = 5
# Calls of one function that are followed while another is run.
_MAX_CALLS = 8
_PROPERTIES = frozenset({"property", "cached_property", "functools.cached_property"})
_BUILTINS = frozenset(dir(builtins))


class Machine:
    """One file's run. `sent` are its prompts; `kept` are causes in turns stored for later."""

    def __init__(self, index: ModuleIndex, *, budget: int, root_budget: int) -> None:
        self.index = index
        self.variables: dict[str, Value] = {}
        self.sent: list[SentPrompt] = []
        self.cuts: set[Taint] = set()
        self.kept: set[Taint] = set()
        self._total = budget
        self._root_budget = root_budget
        self._share = self._budget = min(budget, root_budget)
        self._recording = True
        self._closures: dict[str, dict[str, Value]] = {}
        self._active: set[str] = set()
        self._calls: Counter[str] = Counter()
        self._class_variables: dict[str, dict[str, Value]] = {}

    def run(self, tree: ast.Module) -> None:
        """Run the module's own statements, then each function that matters."""
        self._recording = self.index.module_relevant
        frame = Frame(machine=self, variables=self.variables)
        with suppress(RecursionError):
            execute(tree.body, frame)
        self._recording = True
        for info in list(self.index.routines.values()):
            if info.index in self.index.relevant and info.owner is None:
                self._run_root(info, {})
        for name in self.index.classes:
            self._run_class(name)

    def step(self) -> bool:
        """Count one step; False once the budget is spent."""
        self._budget -= 1
        return self._budget > 0

    def _start_budget(self) -> None:
        """Each function gets its share of what is left, so that none starves the others.

        A run that is only to learn an object's fields gets a smaller one.
        """
        self._total -= self._share - max(self._budget, 0)
        self._share = self._root_budget if self._recording else self._root_budget // 4
        self._share = max(min(self._total, self._share), 0)
        self._budget = self._share
        self._calls.clear()

    def outer_name(self, name: str) -> Value:
        """What a name means that no variable has: an import, a definition, a builtin."""
        if name in self.index.imports:
            return Reference(self.index.imports[name])
        if name in self.index.routines or name in self.index.classes:
            return Routine(name)
        return Reference(name) if name in _BUILTINS else Opaque(name=name)

    def method_of(self, owner: str, name: str) -> Routine | None:
        """A method of a class of this module or of its bases here."""
        for cls in self._ancestry(owner):
            if f"{cls}.{name}" in self.index.routines:
                return Routine(f"{cls}.{name}", bound=True)
        return None

    def _ancestry(self, owner: str) -> list[str]:
        found, waiting = [], [owner]
        while waiting:
            name = waiting.pop(0)
            node = self.index.classes.get(name)
            if node is not None and name not in found:
                found.append(name)
                waiting += [base.id for base in node.bases if isinstance(base, ast.Name)]
        return found

    def close_over(self, name: str, frame: Frame) -> None:
        """A nested function sees the variables of the function it is made in."""
        self._closures[name] = frame.variables

    def call(self, node: ast.Call, frame: Frame) -> Value:
        """The value of a call."""
        return calls.call(node, frame)

    def send(self, sent: SentPrompt) -> None:
        """A prompt goes out."""
        if self._recording:
            self.sent.append(sent)

    def send_messages(self, messages: Items, made: Call) -> None:
        """A framework's template was filled in: its messages go to a model."""
        if holds_messages(messages):
            self.send(SentPrompt(line=made.span.line, label=made.path, messages=messages))

    def sent_count(self) -> int:
        """How many prompts have gone out so far."""
        return len(self.sent)

    def cut_after_sending(self, taints: Taints) -> None:
        """The start of a conversation is cut off after it was sent."""
        if self._recording:
            self.cuts |= {t for t in taints if t.kind is Kind.TRUNCATED}

    def stored(self, items: Iterable[Item]) -> None:
        """Turns are kept for the next prompt."""
        taints = union(taints_of(item.value) for item in items if holds_messages(Items((item,))))
        if self._recording:
            self.kept |= {t for t in taints if t.kind in (Kind.STRIPPED, Kind.RESERIALISED)}

    def call_routine(self, routine: Routine, made: Call, node: ast.Call, frame: Frame) -> Value:
        """A call of a function or class of this module."""
        if routine.index in self.index.classes:
            return self._instance(routine.index, made, frame)
        info = self.index.routines.get(routine.index)
        if info is None or not self._may_enter(info, frame):
            return _summary_of(made)
        inner = self._frame_for(info, frame)
        own = {k: v for k, v in frame.variables.items() if k.startswith("self.")}
        inner.variables.update(own if info.owner == frame.owner else {})
        bind_arguments(info, made, inner, bound=routine.bound or info.owner is not None)
        inner.kept |= _own_paths(frame.kept) if info.owner == frame.owner else set()
        inner.kept |= {name for name, path in _shared(info, node) if path in frame.kept}
        result = self._enter(info, inner)
        self._write_back(info, inner, node, frame)
        return result

    def read_method(self, routine: Routine, frame: Frame, span: Span) -> Value:
        """A method that is named but not called: a property is run, any other stays a method."""
        info = self.index.routines[routine.index]
        names = {dotted(decorator) for decorator in info.node.decorator_list}
        if not names & _PROPERTIES or not self._may_enter(info, frame):
            return routine
        inner = self._frame_for(info, frame)
        inner.variables.update(_own(frame.variables))
        bind_arguments(info, Call((), (), span), inner, bound=True)
        return self._enter(info, inner)

    def call_method(self, receiver: Entries, name: str, made: Call, frame: Frame) -> Value | None:
        """A call of a method of an object whose class is in this module."""
        routine = self.method_of(receiver.owner, name)
        info = self.index.routines.get(routine.index) if routine else None
        if info is None or not self._may_enter(info, frame):
            return None
        inner = self._frame_for(info, frame)
        inner.variables.update({f"self.{key}": value for key, value in receiver.entries})
        bind_arguments(info, made, inner, bound=True)
        return self._enter(info, inner)

    def _may_enter(self, info: RoutineInfo, frame: Frame) -> bool:
        if frame.depth >= _MAX_DEPTH or info.index in self._active or self._budget <= 0:
            return False
        self._calls[info.index] += 1
        return self._calls[info.index] <= _MAX_CALLS or not frame.depth

    def _frame_for(self, info: RoutineInfo, frame: Frame | None) -> Frame:
        depth = frame.depth + 1 if frame is not None else 0
        enclosing = self._closures.get(info.index) if info.owner is None else None
        return Frame(machine=self, variables={}, enclosing=enclosing, owner=info.owner, depth=depth)

    def _enter(self, info: RoutineInfo, inner: Frame) -> Value:
        self._active.add(info.index)
        # An expression nested hundreds deep ends the run of its function, not that of the file.
        with suppress(RecursionError):
            execute(info.node.body, inner)
        self._active.discard(info.index)
        return _result(inner)

    def _write_back(self, info: RoutineInfo, inner: Frame, node: ast.Call, frame: Frame) -> None:
        """What the function did to its object and to the lists that it was given."""
        if info.owner is not None and info.owner == frame.owner:
            for name, value in inner.variables.items():
                if name.startswith("self."):
                    frame.variables[name] = value
            frame.kept |= _own_paths(inner.kept)
        for name, path in _shared(info, node):
            if name in inner.changed:
                frame.variables[path] = inner.variables[name]
            if name in inner.kept:
                frame.kept.add(path)

    def _instance(self, name: str, made: Call, frame: Frame) -> Value:
        """An object of a class of this module, by its fields."""
        maker = self.method_of(name, "__init__")
        info = self.index.routines.get(maker.index) if maker else None
        if info is None:
            return self._record(name, made)
        if not self._may_enter(info, frame):
            return UNKNOWN
        inner = self._frame_for(info, frame)
        bind_arguments(info, made, inner, bound=True)
        self._enter(info, inner)
        own = {k.removeprefix("self."): v for k, v in inner.variables.items() if "self." in k}
        return Entries(tuple(own.items()), open=True, owner=name)

    def _record(self, name: str, made: Call) -> Value:
        """A dataclass, or the like: fields in the order of their annotations."""
        body = self.index.classes[name].body
        fields = [
            s for s in body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
        ]
        names = [s.target.id for s in fields if isinstance(s.target, ast.Name)]
        entries = Entries(open=True, owner=name)
        for key, value in (*zip(names, made.arguments, strict=False), *made.keywords):
            entries = entries.put(key, value)
        return entries

    def _run_root(self, info: RoutineInfo, own: dict[str, Value]) -> dict[str, Value]:
        """Run a function with unknown arguments; gives its variables at the end."""
        inner = self._frame_for(info, None)
        bind_unknown(info, inner)
        inner.variables.update(own)
        inner.kept |= own.keys()
        self._start_budget()
        state = _sgl_state(info.node, self)
        if state is not None:
            inner.variables[state] = Items()
        result = self._enter(info, inner)
        if state is not None:
            self._send_program(info, inner.variables.get(state, UNKNOWN))
        elif is_prompt_builder(info.node.name):
            self._send_built(info, result)
        return inner.variables

    def _send_program(self, info: RoutineInfo, state: Value) -> None:
        """The prompt of a function of SGLang's frontend language."""
        if not isinstance(state, Items):
            return
        label, line = info.node.name, info.node.lineno
        if state.items and all(isinstance(i.value, Text) for i in state.items):
            text = concatenated(i.value for i in state.items if isinstance(i.value, Text))
            self.send(SentPrompt(line=line, label=label, text=text))
        else:
            self.send(SentPrompt(line=line, label=label, messages=state))

    def _send_built(self, info: RoutineInfo, result: Value) -> None:
        """A function that by its name returns a prompt, to be sent from elsewhere."""
        label, line = f"{info.node.name}()", info.node.lineno
        if holds_messages(result):
            self.send(SentPrompt(line=line, label=label, messages=result))
        elif isinstance(result, Text) and any(part.text for part in result.parts):
            system = is_system_text(info.node.name)
            sent = SentPrompt(
                line=line,
                label=label,
                system=result if system else None,
                messages=None if system else Items((Item(result),)),
                open_ended=system,
            )
            self.send(sent)

    def _run_class(self, name: str) -> None:
        """Run the methods that send, with what all methods leave in the object's fields."""
        methods = self._methods_of(name)
        sending = [m for m in methods if m.index in self.index.relevant]
        if not sending:
            return
        self._recording = False
        made = self._made_state(name)
        read = set[str]().union(*(own_fields(m.node) for m in methods if m in sending))
        left = self._left_state([m for m in methods if changed_fields(m.node) & read], made)
        self._recording = True
        for method in sending:
            self._run_root(method, made if method.node.name == "__init__" else left)

    def _methods_of(self, name: str) -> list[RoutineInfo]:
        """The methods of a class and of its bases here; the nearest of a name counts."""
        found: dict[str, RoutineInfo] = {}
        for cls in self._ancestry(name):
            for method in self.index.methods[cls]:
                found.setdefault(method.node.name, replace(method, owner=name))
        return list(found.values())

    def _made_state(self, name: str) -> dict[str, Value]:
        """The fields of a new object: class variables, then what each `__init__` sets."""
        state = self._class_state(name)
        for cls in reversed(self._ancestry(name)):
            maker = self.index.routines.get(f"{cls}.__init__")
            if maker is not None:
                state |= _own(self._run_root(replace(maker, owner=name), state))
        return state

    def _left_state(self, methods: list[RoutineInfo], made: dict[str, Value]) -> dict[str, Value]:
        """The fields after any of the methods was called."""
        left = dict(made)
        for method in methods:
            if method.node.name != "__init__":
                left = joined(left, _own(self._run_root(method, made)), CLEAN)
        return left

    def _class_state(self, name: str) -> dict[str, Value]:
        """Class variables, as the object's fields."""
        state: dict[str, Value] = {}
        for cls in reversed(self._ancestry(name)):
            frame = Frame(machine=self, variables={})
            assignments = (ast.Assign, ast.AnnAssign)
            execute([s for s in self.index.classes[cls].body if isinstance(s, assignments)], frame)
            state |= {f"self.{key}": value for key, value in frame.variables.items()}
        return state


def _own(variables: dict[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in variables.items() if name.startswith("self.")}


def _own_paths(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path.startswith("self.")}


def _shared(info: RoutineInfo, node: ast.Call) -> list[tuple[str, str]]:
    """(parameter, path of the caller's variable) for each variable that is handed over."""
    names = [a.arg for a in (*info.node.args.posonlyargs, *info.node.args.args)]
    if info.owner is not None and not info.static:
        names = names[1:]
    given = [*zip(names, node.args, strict=False)]
    given += [(each.arg, each.value) for each in node.keywords if each.arg is not None]
    return [(name, path) for name, each in given if (path := dotted(each)) is not None]


def _result(frame: Frame) -> Value:
    """What a function gives back, over all its returns."""
    if frame.yields:
        items: tuple[Item, ...] = ()
        for value in frame.yields:
            items += as_items(Items((Item(value, repeated=True),))).items
        return Items(items)
    if not frame.returns:
        return UNKNOWN
    forks = union(taints for _, taints in frame.returns)
    result, *others = (value for value, _ in frame.returns)
    for value in others:
        result = join(result, value, forks)
    return result


def _sgl_state(node: FunctionNode, machine: Machine) -> str | None:
    """The parameter that holds the prompt in a function of SGLang's frontend language."""
    for decorator in node.decorator_list:
        path = dotted(decorator) or ""
        head, _, rest = path.partition(".")
        name = machine.index.imports.get(head, head) + (f".{rest}" if rest else "")
        if name == "sglang.function" and node.args.args:
            return node.args.args[0].arg
    return None


def _summary_of(made: Call) -> Value:
    """A call that isn't followed: what it gives back depends on what it was given."""
    given = union(taints_of(v) for v in (*made.arguments, *(v for _, v in made.keywords)))
    return Opaque(taints=request_taints(given, made.span))
