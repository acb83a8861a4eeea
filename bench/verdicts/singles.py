"""Cases with one cause each, and those in which nothing is lost."""

from collections.abc import Callable, Sequence

from bench.verdicts.cases import Case, Disturbance, JSONObject, Label, Question, Site
from bench.verdicts.texts import Texts

Maker = Callable[[Texts], Case]

HIT = Label(verdict="hit")
COLD = Label(verdict="cold")
_SHORT = 34  # tokens of a heading that is more than a page and, with all else, less than a chunk


def notes(
    texts: Texts,
    heading: str,
    passages: Sequence[JSONObject] = (),
    *,
    collection: str | None = None,
    template: str = "notes@1",
    **variables: str,
) -> Question:
    """A question of its own about some notes."""
    question = {"role": "user", "content": texts.unique(14)}
    return Question(
        template=template,
        messages=[question],
        variables={"heading": heading, "passages": list(passages), **variables},
        collection=collection,
        stream=texts.random.random() < 0.25,
    )


def talk(heading: str, messages: Sequence[JSONObject], **fields: object) -> Question:
    """The next turn of a conversation."""
    return Question(
        template="talk@1",
        messages=list(messages),
        variables={"heading": heading},
        **fields,  # type: ignore[arg-type]
    )


def some(texts: Texts, count: int, tokens: int = 60) -> list[JSONObject]:
    """Passages."""
    return [texts.note(tokens) for _ in range(count)]


def said(texts: Texts, count: int, tokens: int = 30) -> list[JSONObject]:
    """Messages, the user's first; an odd number ends with the user's."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": texts.unique(tokens)} for n in range(count)]


def changed(cause: str) -> Label:
    """Only what an earlier prompt had elsewhere is lost."""
    return Label(verdict="changed", reasons=frozenset({"changed"}), causes=frozenset({cause}))


def loses(verdict: str, tokens: int | None, *causes: str) -> Label:
    """One reason, and exactly so many tokens."""
    return Label(
        verdict=verdict,
        reasons=frozenset({verdict}),
        causes=frozenset(causes) or None,
        tokens={} if tokens is None else {verdict: tokens},
    )


def again(texts: Texts) -> Case:
    """The same documents, another question, perhaps one document more."""
    heading, passages = texts.unique(60), some(texts, texts.random.randint(1, 3))
    more = some(texts, texts.random.randint(0, 1))
    first = notes(texts, heading, passages)
    return Case(
        kind="hit", first=[first], last=notes(texts, heading, [*passages, *more]), label=HIT
    )


def next_turn(texts: Texts) -> Case:
    heading, messages = texts.unique(40), said(texts, 5)
    first = talk(heading, messages[:3])
    return Case(kind="hit, next turn", first=[first], last=talk(heading, messages), label=HIT)


def first_time(texts: Texts) -> Case:
    last = notes(texts, texts.unique(60), some(texts, texts.random.randint(0, 3)))
    return Case(kind="cold", first=[], last=last, label=COLD)


def clock_in_heading(texts: Texts) -> Case:
    """A time, at the head of a segment or within it."""
    opening, rest = texts.unique(texts.random.choice([8, 60])), texts.words(80)
    passages = some(texts, 2)
    one, two = (f"{opening} It is {texts.name()} now. {rest}" for _ in range(2))
    first, last = notes(texts, one, passages), notes(texts, two, passages)
    return Case(kind="segment changed", first=[first], last=last, label=changed("segment_changed"))


def clock_in_instructions(texts: Texts) -> Case:
    heading, passages, rest = texts.unique(40), some(texts, 1), texts.words(80)
    first, last = (
        notes(texts, heading, passages, manner=f"It is {texts.name()} now. {rest}")
        for _ in range(2)
    )
    return Case(kind="segment changed", first=[first], last=last, label=changed("segment_changed"))


def documents_order(texts: Texts) -> Case:
    heading, passages = texts.unique(40), some(texts, texts.random.randint(3, 5))
    other = list(passages)
    while other == passages:
        texts.random.shuffle(other)
    first, last = notes(texts, heading, passages), notes(texts, heading, other)
    return Case(kind="documents order", first=[first], last=last, label=changed("documents_order"))


def documents_changed(texts: Texts) -> Case:
    """One is put in, taken out, replaced or edited, and others follow it."""
    heading, passages = texts.unique(40), some(texts, 4)
    place = texts.random.randrange(3)
    other = list(passages)
    match texts.random.choice(["insert", "remove", "replace", "edit"]):
        case "insert":
            other.insert(place, texts.note(60))
        case "remove":
            del other[place]
        case "replace":
            other[place] = texts.note(60)
        case "edit":
            text = f"{texts.name()} {passages[place]['text']}"
            other[place] = {"name": passages[place]["name"], "text": text}
    first, last = notes(texts, heading, passages), notes(texts, heading, other)
    return Case(
        kind="documents changed", first=[first], last=last, label=changed("documents_changed")
    )


def history_edited(texts: Texts) -> Case:
    """An early message is edited or replaced, or the first two are gone."""
    heading, messages = texts.unique(40), said(texts, 7)
    edited = list(messages)
    match texts.random.choice(["edit", "replace", "front"]):
        case "edit":
            edited[0] = {"role": "user", "content": f"{texts.name()} {messages[0]['content']}"}
        case "replace":
            edited[0] = {"role": "user", "content": texts.unique(25)}
        case "front":
            del edited[:2]
    turns = [talk(heading, messages[:count]) for count in (3, 5, 7)]
    last = talk(heading, [*edited, *said(texts, 3)[1:]])
    return Case(kind="history edited", first=turns, last=last, label=changed("history_edited"))


def tools_changed(texts: Texts) -> Case:
    heading, tools = texts.unique(90), [_tool(texts, f"a{number}") for number in range(3)]
    first = talk(heading, said(texts, 1), tools=tools)
    last = talk(heading, said(texts, 1), tools=[*tools, _tool(texts, "b")])
    return Case(kind="tools changed", first=[first], last=last, label=changed("tools_changed"))


def version(texts: Texts) -> Case:
    heading = texts.unique(40)
    manner = texts.words(80)
    first = notes(texts, heading, some(texts, 1), manner=manner)
    last = notes(
        texts,
        heading,
        first.variables["passages"],
        template="notes@2",
        manner=manner,
    )
    return Case(kind="version", first=[first], last=last, label=changed("version"))


def isolated(texts: Texts) -> Case:
    """The same under another salt, where none of its documents was shown behind other text."""
    one = texts.random.choice([*texts.collections])
    heading, passages = texts.unique(40), some(texts, 2)
    first = notes(texts, heading, passages, collection=one)
    last = notes(texts, heading, passages)
    shared = texts.left(texts.ids(last), texts.ids(first))
    return Case(
        kind="isolated",
        first=[first],
        last=last,
        label=loses("isolated", shared, "other_salt"),
    )


def short(texts: Texts) -> tuple[Question, Question, int]:
    """Two questions under one heading, no chunk long together; and the pages they share."""
    while True:
        heading = texts.unique(_SHORT)
        one, two = notes(texts, heading), notes(texts, heading)
        left = texts.left(texts.ids(two), texts.ids(one))
        if texts.page <= left < texts.chunk:
            return one, two, left


def cleared(texts: Texts) -> Case:
    one, two, left = short(texts)
    return Case(
        kind="evicted, cleared",
        first=[one],
        last=two,
        label=loses("evicted", left, "cleared"),
        between=Disturbance.FLUSH,
    )


def pool(texts: Texts) -> Case:
    one, two, left = short(texts)
    return Case(
        kind="evicted, pool",
        first=[one],
        last=two,
        label=loses("evicted", left, "pool"),
        between=Disturbance.OVERFLOW,
    )


def rounding(texts: Texts, between: Disturbance = Disturbance.FLUSH) -> Case:
    """Back from the tiers, which keep whole chunks."""
    heading, passages = texts.unique(60), some(texts, texts.random.randint(0, 2))
    first, last = notes(texts, heading, passages), notes(texts, heading, passages)
    left = texts.left(texts.ids(last), texts.ids(first))
    short = left - texts.chunked(left)
    if not 0 < short < left:
        return rounding(texts, between)
    return Case(
        kind="rounding",
        first=[first],
        last=last,
        label=loses("rounding", short, "chunk"),
        between=between,
    )


def rounding_after_overflow(texts: Texts) -> Case:
    return rounding(texts, Disturbance.OVERFLOW)


def concurrent(texts: Texts) -> Case:
    """Several of a kind at the same moment; the label is made from what the engine did."""
    last = notes(texts, texts.unique(150), some(texts, 2))
    label = Label(verdict="engine", reasons=frozenset({"engine"}))
    return Case(kind="engine, concurrent", first=[], last=last, label=label, burst=3)


def events_lost(texts: Texts) -> Case:
    one, two, left = short(texts)
    return Case(
        kind="unknown, events lost",
        first=[one],
        last=two,
        label=loses("unknown", left, "events_lost"),
        site=Site.DEAF,
        between=Disturbance.DROP_AND_FLUSH,
    )


def events_lost_in_vain(texts: Texts) -> Case:
    """Events are missing, but nothing else is."""
    case = again(texts)
    return Case(
        kind="hit, events lost",
        first=case.first,
        last=case.last,
        label=HIT,
        site=Site.DEAF,
        between=Disturbance.DROP,
    )


def events_off(texts: Texts) -> Case:
    one, two, left = short(texts)
    return Case(
        kind="unknown, events off",
        first=[one],
        last=two,
        label=loses("unknown", left, "events_off"),
        site=Site.EVENTLESS,
        between=Disturbance.FLUSH,
    )


def no_cache_report(texts: Texts) -> Case:
    case = again(texts)
    label = Label(verdict="unknown", causes=frozenset({"no_cache_report"}))
    return Case(
        kind="unknown, no cache report",
        first=case.first[: texts.random.randint(0, 1)],
        last=case.last,
        label=label,
        site=Site.SILENT,
    )


def _tool(texts: Texts, name: str) -> JSONObject:
    function = {
        "name": f"{name}_{texts.name()}",
        "description": texts.words(20),
        "parameters": {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}
