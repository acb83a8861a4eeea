"""Nothing but declared values can get into a template's text."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import PromptDocument, PromptError, Template, parse_template, render
from prompts.environment import RENDER_ERRORS, template_environment
from prompts.errors import TemplateSyntaxError, UnstableValueError


def template(text: str) -> Template:
    body = "".join(f"      {line}\n" for line in text.split("\n"))
    source = (
        "name: t\nversion: 1\nvariables:\n"
        "  x: {type: text, volatility: turn}\n"
        "  data: {type: json, volatility: turn}\n"
        "  docs: {type: documents, volatility: turn}\n"
        f"segments:\n  - id: s\n    role: user\n    volatility: turn\n    text: |-\n{body}"
    )
    return parse_template(Path("t.yaml"), source.encode())


VALUES = {
    "x": "value",
    "data": {"b": 1, "a": [0.5, True, None]},
    "docs": [PromptDocument(name="n", text="t")],
}


def rendered(text: str) -> str:
    return "".join(s.text for s in render(template(text), VALUES).segments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ now() }}", r"12:10: `now\(\)` can't be called here; it reads the clock"),
        ("{{ x }}\n {{ now }}", "13:11: 'now' is used but not declared under variables; it reads"),
        ("{{ x.strftime('%c') }}", "12:12: .*it reads the clock"),
        ("{{ '{:n}'.format(3) }}", "it depends on the locale"),
        ("{{ data|random }}", "12:15: no filter is called 'random' here; it draws lots"),
        ("{{ uuid4() }}", "it draws lots"),
        ("{{ random.choice(data) }}", "it draws lots"),
        ("{{ env['HOME'] }}", "it reads the machine"),
        ("{{ lipsum() }}", "only macros of this text"),
        ("{{ cycler('a', 'b') }}", "only macros of this text"),
        ("{{ x() }}", "only macros of this text"),
        ("{{ data['pop']() }}", r"looked up by \[ \] can't be called"),
        ("{{ data.popitem() }}", "methods of values can be"),
        ("{% include 'other' %}", "a template is one file"),
        ("{% import 'other' as o %}", "a template is one file"),
        ("{% from 'other' import o %}", "a template is one file"),
        ("{% extends 'other' %}", "a template is one file"),
        ("{{ x is odder }}", "no test is called 'odder'"),
        ("{% if x %}", "Jinja: Unexpected end of template"),
    ],
)
def test_what_is_no_function_of_declared_values_is_refused_when_parsed(
    text: str, words: str
) -> None:
    with pytest.raises(TemplateSyntaxError, match=words):
        template(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ x.upper }}", "{{ x.upper ~ '' }}", "{{ '%s' % x.upper }}", "{{ '%r'|format(x.upper) }}",
        "{{ x.upper|string }}", "{{ [x.upper]|join }}", "{{ data.items }}", "{{ data['items'] }}",
        "{{ docs|map(attribute='text.upper')|join }}", "{{ data }}", "{{ docs }}", "{{ none }}",
        "{{ data.a[1] }}", "{{ data.a[2] }}", "{{ docs[0] }}", "{{ data.items() }}", "{{ range }}",
        "{{ docs|map(attribute='name') }}", "{{ x.__class__ }}", "{{ ''.__class__.__mro__ }}",
        "{{ data.nothing }}", "{{ x.nothing }}", "{{ docs[7] }}", "{{ 1 / 0 }}", "{{ x + 1 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)  # fmt: skip
def test_what_has_no_spelling_of_its_own_never_reaches_the_text(text: str) -> None:
    with pytest.raises(PromptError, match="can't be rendered"):
        rendered(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ x.upper() }} {{ x|upper }}", "VALUE VALUE"),
        ("{{ 'a,b'.split(',')|join('-') }}", "a-b"),
        ("{{ docs|map(attribute='name')|join }}", "n"),
        ("{{ (docs|map(attribute='name')) | first }}", "n"),
        ("{{ [3, 1, 2]|sort|reverse|join(',') }}", "3,2,1"),
        ("{{ 'abc'|reverse }}", "cba"),
        ("{{ data|dictsort|length }}", "2"),
        ("{% for k, v in data|items %}{{ k }}{% endfor %}", "ab"),
        ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "aba"),
        ("{% set n = namespace(i=0) %}{% set n.i = n.i + 1 %}{{ n.i }}", "1"),
        ("{% macro m(y) %}[{{ y }}]{% endmacro %}{{ m(x) }}", "[value]"),
        ("{{ 0.1 + 0.2 }} {{ 1 / 4 }} {{ 4 / 2 }} {{ 7|round }}",
         "0.30000000000000004 0.25 2 7"),
        ("{{ data|json }} {{ data|tojson }}",
         '{"a":[0.5,true,null],"b":1} {"a":[0.5,true,null],"b":1}'),
        ("{% set now = x %}{{ now }}", "value"),
        ("{{ data.get('c', 'none') }}", "none"),
        ("{% if data.c is defined %}c{% endif %}{{ data.c|default('d') }}", "d"),
        ("{{ '%05.1f' % 3.14159 }}", "003.1"),
        ("now, uuid4() and {random} are words", "now, uuid4() and {random} are words"),
        ("{% raw %}{{ now() }}{% endraw %}{{ '\\u200b'|length }}", "{{ now() }}1"),
    ],
)  # fmt: skip
def test_functions_of_declared_values_are_there(text: str, shown: str) -> None:
    assert rendered(text) == shown


def test_what_a_segment_sets_is_not_seen_by_the_next() -> None:
    source = (
        b"name: t\nversion: 1\nvariables: {x: {type: text, volatility: turn}}\nsegments:\n"
        b"  - {id: a, role: user, volatility: turn, text: '{% set x = 1 %}{{ x }}'}\n"
        b"  - {id: b, role: user, volatility: turn, text: '{{ x }}'}\n"
    )
    prompt = render(parse_template(Path("t.yaml"), source), {"x": "given"})
    assert [segment.text for segment in prompt.segments] == ["1", "given"]


def test_a_fault_in_rendering_names_the_segment() -> None:
    with pytest.raises(UnstableValueError, match="'s' can't be rendered: a function is printed"):
        rendered("{{ x.upper }}")


ENVIRONMENT = template_environment()
VALUES_OF_ALL_KINDS = (
    "x.upper", "data", "data.items", "data.items()", "docs", "docs[0]", "[x.upper]", "range",
    "namespace(a=range)", "loop", "loop.cycle", "m", "docs|map('upper')", "none", "0.1",
)  # fmt: skip
FORMS = ("{{ %s }}", "{{ %s ~ '' }}", "{{ [%s]|string }}")


@pytest.mark.parametrize("name", ["", *sorted(ENVIRONMENT.filters)])
def test_no_memory_address_reaches_the_text(name: str) -> None:
    for value in VALUES_OF_ALL_KINDS:
        for form in FORMS:
            expression = form % (f"(({value})|{name})" if name else f"({value})")
            text = "{% macro m() %}{% endmacro %}{% for _ in [1] %}" + expression + "{% endfor %}"
            with contextlib.suppress(*RENDER_ERRORS):
                assert " at 0x" not in ENVIRONMENT.from_string(text).render(VALUES)


@given(keys=st.sets(st.sampled_from(["items", "keys", "values", "get", "a"])))
def test_a_called_method_is_the_method_whatever_keys_a_mapping_has(keys: set[str]) -> None:
    source = "{% for k, v in data.items() %}{{ k }}={{ v }};{% endfor %}{{ data.get('a', 'no') }}"
    data = {key: f"<{key}>" for key in sorted(keys)}
    printed = template_environment().from_string(source).render(data=data)
    listed = "".join(f"{key}=<{key}>;" for key in sorted(keys))
    assert printed == listed + ("<a>" if "a" in keys else "no")


def test_a_mappings_own_key_wins_where_nothing_is_called() -> None:
    template = template_environment().from_string("{% for x in order.items %}{{ x }}{% endfor %}")
    assert template.render(order={"items": ["tea", "rope"]}) == "tearope"
