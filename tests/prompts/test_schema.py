"""The JSON Schema takes and refuses the files that the parser does."""

import copy
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st

import prompts
from prompts import parse_template, shipped_templates
from prompts.errors import TemplateError
from prompts.schema import schema_text, template_schema

SCHEMA = template_schema()
PATH = Path("t.yaml")


def valid(value: object, schema: object) -> bool:
    """A validator of the keywords that the schema uses; an unknown one fails loudly."""
    if isinstance(schema, bool):
        return schema
    assert isinstance(schema, dict)
    return all(_KEYWORDS[keyword](value, schema) for keyword in schema)


def _reference(value: object, schema: dict[str, object]) -> bool:
    name = str(schema["$ref"]).removeprefix("#/definitions/")
    definitions = SCHEMA["definitions"]
    assert isinstance(definitions, dict)
    return valid(value, definitions[name])


def _type(value: object, schema: dict[str, object]) -> bool:
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kind = kinds[str(schema["type"])]
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _properties(value: object, schema: Mapping[str, object]) -> bool:
    known = schema.get("properties", {})
    assert isinstance(known, dict)
    if not isinstance(value, dict):
        return True
    return all(valid(value[name], known[name]) for name in known if name in value)


def _additional(value: object, schema: Mapping[str, object]) -> bool:
    known = schema.get("properties", {})
    assert isinstance(known, dict)
    if not isinstance(value, dict):
        return True
    others = [item for name, item in value.items() if name not in known]
    return all(valid(item, schema["additionalProperties"]) for item in others)


def _pattern(value: object, schema: Mapping[str, object]) -> bool:
    # In JavaScript a final $ is the end of the text, not of its last line.
    pattern = str(schema["pattern"]).removesuffix("$") + r"\Z"
    return not isinstance(value, str) or re.search(pattern, value) is not None


def _if(value: object, schema: Mapping[str, object]) -> bool:
    branch = "then" if valid(value, schema["if"]) else "else"
    return valid(value, schema.get(branch, True))


_KEYWORDS: dict[str, Callable[[object, dict[str, object]], bool]] = {
    "$schema": lambda _, __: True,
    "description": lambda _, __: True,
    "definitions": lambda _, __: True,
    "then": lambda _, __: True,
    "else": lambda _, __: True,
    "$ref": _reference,
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "pattern": _pattern,
    "if": _if,
    "not": lambda v, s: not valid(v, s["not"]),
    "enum": lambda v, s: v in s["enum"],  # type: ignore[operator]
    "required": lambda v, s: not isinstance(v, dict) or set(s["required"]) <= set(v),  # type: ignore[call-overload]
    "minimum": lambda v, s: not isinstance(v, int) or v >= s["minimum"],  # type: ignore[operator]
    "maximum": lambda v, s: not isinstance(v, int) or v <= s["maximum"],  # type: ignore[operator]
    "minItems": lambda v, s: not isinstance(v, list) or len(v) >= s["minItems"],  # type: ignore[operator]
    "items": lambda v, s: not isinstance(v, list) or all(valid(i, s["items"]) for i in v),
    "propertyNames": lambda v, s: (
        not isinstance(v, dict) or all(valid(n, s["propertyNames"]) for n in v)
    ),
    "allOf": lambda v, s: all(valid(v, each) for each in s["allOf"]),  # type: ignore[attr-defined]
    "oneOf": lambda v, s: sum(valid(v, each) for each in s["oneOf"]) == 1,  # type: ignore[attr-defined]
}

LEVEL = st.sampled_from(["static", "turn"])
ANY_VOLATILITY = {"volatility": LEVEL}
VARIABLE = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "documents"]), "volatility": LEVEL},
        optional={"optional": st.booleans(), "normalize": st.booleans()},
    ),
    st.fixed_dictionaries(
        {"type": st.just("number"), "volatility": LEVEL, "format": st.sampled_from([".2f", ",.0%"])}
    ),
    st.fixed_dictionaries(
        {"type": st.just("date"), "volatility": LEVEL},
        optional={"format": st.sampled_from(["YYYY-MM", "Month D, YYYY"])},
    ),
)
TEXT_SEGMENT = st.fixed_dictionaries(
    {
        "id": st.just("a"),
        "volatility": LEVEL,
        "role": st.sampled_from(["system", "user", "assistant"]),
        "text": st.just("plain"),
    },
    optional={"allow": st.lists(st.sampled_from(["space", "bidi"]), max_size=2)},
)
SAID_SEGMENT = st.fixed_dictionaries(
    {"id": st.just("b_1"), "volatility": LEVEL, "messages": st.just("said")}
)
FILE = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "x-y", "b_1"]),
        "version": st.sampled_from([1, 7, 10**9 - 1]),
        "variables": st.fixed_dictionaries(
            {
                "said": st.just({"type": "messages", "volatility": "static"}),
                "used": st.just({"type": "tools", "volatility": "static"}),
                "other": VARIABLE,
            }
        ),
        "segments": st.tuples(TEXT_SEGMENT, SAID_SEGMENT).map(list),
    },
    optional={"tools": st.just("used")},
)
STRANGE = st.sampled_from(
    [None, True, 0, 1, 1.0, 10**9, "1", "Nine", "9", "a\n", "", "x-y", "a" * 65, "turn", "number",
     "json", ".2f", "YYYY", "2f", "yes", [], {}, ["space"], ["nothing"]]
)  # fmt: skip


def places(value: object) -> list[tuple[Any, Any]]:
    """Each mapping or list in a value with each of its keys."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [p for key in keys for p in places(value[key])]


def change(file: dict[str, object], draw: st.DrawFn) -> None:
    """One slip: a value of another kind, a field gone, a field too many, a field misnamed."""
    container, key = draw(st.sampled_from(places(file)))
    slip = draw(st.sampled_from(["replace", "drop", "add", "rename"]))
    if slip == "replace":
        container[key] = draw(STRANGE)
    elif slip == "drop":
        del container[key]
    elif isinstance(container, dict):
        value = container[key] if slip == "add" else container.pop(key)
        container[draw(st.sampled_from(["odd", "range", "Nine", "text", "messages"]))] = value


@st.composite
def files(draw: st.DrawFn) -> dict[str, object]:
    """A good file with up to two slips."""
    file = copy.deepcopy(draw(FILE))
    for _ in range(draw(st.integers(0, 2))):
        change(file, draw)
    return file


def names_are_known(file: dict[str, object]) -> bool:
    """What only the parser checks: each segment has a name of its own, each variable is there."""
    segments = file.get("segments")
    parts = [s for s in segments if isinstance(s, dict)] if isinstance(segments, list) else []
    ids = [repr(part.get("id")) for part in parts]
    variables = file.get("variables")
    declared = variables if isinstance(variables, dict) else {}
    kinds = {n: v.get("type") for n, v in declared.items() if isinstance(v, dict)}
    tools = "tools" not in file or kinds.get(repr(file["tools"]).strip("'")) == "tools"
    said = all(
        "messages" not in p or kinds.get(repr(p["messages"]).strip("'")) == "messages"
        for p in parts
    )
    return len(set(ids)) == len(ids) and tools and said


@settings(max_examples=300)
@given(files())
def test_a_file_is_taken_by_both_or_by_neither(file: dict[str, object]) -> None:
    source = yaml.safe_dump(file, sort_keys=False, allow_unicode=True).encode()
    try:
        parse_template(PATH, source)
    except TemplateError as error:
        taken = False
        event(type(error).__name__)
    else:
        taken = True
        event("taken")
    assert taken == (valid(file, SCHEMA) and names_are_known(file))


def test_the_file_is_what_is_generated() -> None:
    path = Path(prompts.__file__).parent / "template.schema.json"
    assert path.read_text("utf-8") == schema_text(), "run `python -m prompts.schema`"
    assert json.loads(schema_text()) == SCHEMA


@pytest.mark.parametrize("path", sorted(shipped_templates().glob("*.yaml")), ids=lambda p: p.name)
def test_the_shipped_templates_are_valid(path: Path) -> None:
    assert valid(yaml.safe_load(path.read_text("utf-8")), SCHEMA)
