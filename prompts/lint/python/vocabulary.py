"""What names give away: `user_name`, `request_id`, `docs`, `SYSTEM_PROMPT`, `fetch_context()`.

Only for values whose origin can't be followed; a finding that rests on a name is *suspected*.
"""

import re
from functools import lru_cache

from prompts.lint.python.taints import Kind

_PERSON = r"(?:user|customer|client|tenant|account|member|patient|student|employee|visitor|guest)"

_VARIABLES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        Kind.CLOCK,
        re.compile(
            r"(?:utc_?)?now(?:_(?:iso|str|text|utc))?|time_?stamp|today(?:s_date|_str|_iso)?"
            r"|(?:current|todays?)_?(?:time|date|datetime|timestamp|day)(?:_str|_iso)?"
            r"|(?:date_?time|date|time)_?now"
        ),
    ),
    (
        Kind.IDENTIFIER,
        re.compile(
            r"(?:request|session|trace|span|conversation|correlation|run|thread|message|chat|turn"
            r"|job|call|invocation)_?(?:id|uuid)|(?:.*_)?uuid4?|nonce|(?:.*_)?guid"
        ),
    ),
    (
        Kind.USER,
        re.compile(
            rf"(?:current_)?{_PERSON}_?(?:name|id|email|first_?name|last_?name|full_?name|phone"
            r"|address|info|handle|profile)|user_?name|first_?name|last_?name|full_?name"
            r"|(?:current_)?(?:user|customer|tenant|patient)"
        ),
    ),
    (
        Kind.SCORE,
        re.compile(r"score|similarity|relevance(?:_score)?|similarity_score|rerank_score"),
    ),
    (
        Kind.DOCUMENTS,
        re.compile(
            r"(?:(?:retrieved|relevant|rag|source|matching|found|top|context)_)?"
            r"(?:docs|documents|chunks|passages|snippets)(?:_text|_str|_block)?"
            r"|(?:retrieved|relevant|rag|retrieval)_(?:context|text|results|nodes)"
            r"|context_(?:str|text|block)|search_(?:results|hits)|hits|context"
        ),
    ),
    (
        Kind.QUESTION,
        re.compile(
            r"(?:user_|customer_|the_)?(?:question|query|utterance)"
            r"|user_(?:input|message|prompt|text|request|msg)|search_query"
        ),
    ),
    (
        Kind.TURN,
        re.compile(r"(?:num_)?turns?(?:_?(?:no|number|index|idx|count))?|step(?:_?no)?|round"),
    ),
    (
        Kind.REQUEST,
        re.compile(
            r"request|req|intent|message|(?:user_)?roles?|permissions?|scopes?|allowed(?:_.*)?"
            r"|enabled_for_.*|relevant(?:_.*)?"
        ),
    ),
)
_PERSON_OWNER = re.compile(rf"(?:current_|the_)?{_PERSON}|profile|me|owner|author_user")
_PERSON_FIELD = re.compile(
    r"name|id|email|first_?name|last_?name|full_?name|display_?name|username|phone|address|handle"
)
_HISTORY = re.compile(
    r"(?:chat_|conversation_|message_|past_|recent_|prev(?:ious)?_|old_|all_)?"
    r"(?:history|messages|msgs|conversation|transcript|dialog(?:ue)?|turns)|memory|convo"
)
_SCAFFOLD = re.compile(
    r"(?:[a-z0-9]+_)*(?:system|base|developer|default|static)_?(?:prompt|message|text|instructions?"
    r"|msg)?|(?:.*_)?instructions?|(?:.*_)?rules|(?:.*_)?guidelines|(?:.*_)?persona|preamble"
    r"|(?:.*_)?policy|(?:.*_)?few_?shots?|(?:.*_)?examples"
)
_SYSTEM_TEXT = re.compile(
    r"(?:.*_)?(?:system|sys|developer)_?(?:prompt|message|text|instructions?|msg)|instructions"
)
_EXAMPLES = re.compile(r"(?:.*_)?(?:examples?|shots?|demos|demonstrations|exemplars)(?:_.*)?")
_SUMMARY = re.compile(r"(?:.*_)?summary(?:_.*)?|(?:.*_)?summari[sz]e[drs]?(?:_.*)?")
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")

_FUNCTIONS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        Kind.CLOCK,
        re.compile(
            r"(?:get_|make_|format_|fmt_)?(?:current|utc|local|todays?)_?(?:time|date|datetime|now"
            r"|timestamp)(?:_str|_string|_iso|_utc|_text)?|get_(?:time|date|datetime|timestamp|now)"
            r"|utc_?now|now_(?:iso|utc|str)|time_?stamp"
        ),
    ),
    (
        Kind.IDENTIFIER,
        re.compile(
            r"(?:new|make|gen|generate|create|next|get)_(?:[a-z]+_)?(?:u?uid|guid|nonce"
            r"|(?:request|trace|session|correlation|run|random)_id)|nanoid|ulid"
        ),
    ),
    (
        Kind.DOCUMENTS,
        re.compile(
            r"a?(?:similarity_search(?:_.*)?|max_marginal_relevance_search|get_relevant_documents)"
            r"|(?:.*_)?retriev(?:e|al)(?:_.*)?|(?:search|fetch|find|lookup|query|get)_(?:relevant_)?"
            r"(?:docs|documents|chunks|context|passages|snippets|knowledge(?:_base)?|kb)"
            r"|(?:semantic|vector|hybrid|knn|kb)_search"
        ),
    ),
)
_RETRIEVERS = re.compile(
    r"(?:.*_)?(?:retriever|vector_?(?:store|db)|vs|index|kb|knowledge_base|collection|searcher"
    r"|qdrant|chroma|faiss_index|reranker|search_client)"
)
_RETRIEVE_METHODS = frozenset(
    {"invoke", "ainvoke", "search", "query", "retrieve", "lookup", "find"}
)
# Calls that give back their argument, more or less.
_CARRIERS = re.compile(
    r"(?:.*_)?(?:format|render|str|text|wrap|escape|dedent|strip|clean|trim|truncate|normali[sz]e"
    r"|indent|join|fill|isoformat|strftime|serialize|stringify|to_[a-z]+|as_[a-z]+|build|make)(?:_.*)?"
)
_PROMPT_BUILDERS = re.compile(
    r"_?(?:get|build|make|create|render|format|compose|construct|generate|assemble)_"
    r"(?:[a-z0-9]+_)*(?:prompt|instructions?|system_message|messages)"
    r"|_?(?:[a-z0-9]+_)*(?:system_prompt|prompt_for(?:_[a-z]+)*|system_message)"
)
_MODEL_CALLS = re.compile(
    r"(?:.*_)?(?:a?chat|llm|gpt|completion|respond|reply|infer)(?:_.*)?|a?call|a?generate(?:_.*)?"
    r"|(?:.*_)?(?:call|query|invoke|ask|run|send)_(?:the_)?"
    r"(?:llm|model|gpt|openai|claude|chat|api|ai|messages)(?:_.*)?"
)
_NOT_MODEL_CALLS = re.compile(r".*(?:tokens?|count|log|trim|convert|format|save|load|cost|test).*")
_TOOL_CHOICE = re.compile(r".*(?:tools?|functions|select|pick|choose|filter|relevant).*\(\)")
_STATIC_LOADERS = re.compile(
    r"(?:load|read|get)_(?:[a-z]+_)*(?:prompt|rules|instructions|template)"
)


@lru_cache(maxsize=4096)
def variable_kind(path: str) -> Kind | None:
    """The cause that a dotted name stands for, such as `user.email` or `self.request_id`."""
    *owners, last = path.lower().split(".")
    if owners and _PERSON_OWNER.fullmatch(owners[-1]) and _PERSON_FIELD.fullmatch(last):
        return Kind.USER
    for kind, pattern in _VARIABLES:
        if pattern.fullmatch(last):
            return None if kind is Kind.CLOCK and _is_of_record(owners, last) else kind
    return None


def _is_of_record(owners: list[str], last: str) -> bool:
    """Whether a time is that of something stored, as in `event.timestamp`."""
    stamps = ("timestamp", "time_stamp", "today")
    return last in stamps and bool(owners) and owners[-1] not in ("state", "ctx", "request", "vars")


@lru_cache(maxsize=4096)
def call_kind(path: str) -> Kind | None:
    """The cause that a call of an unknown function stands for, by the function's dotted name."""
    *owners, last = path.lower().split(".")
    for kind, pattern in _FUNCTIONS:
        if pattern.fullmatch(last):
            return kind
    if owners and last in _RETRIEVE_METHODS and _RETRIEVERS.fullmatch(owners[-1]):
        return Kind.DOCUMENTS
    return None


def is_constant_name(name: str) -> bool:
    """Whether a name is spelled as a constant."""
    return _CONSTANT.fullmatch(name) is not None


def is_scaffold(name: str) -> bool:
    """Whether a name is one of text that stays the same: `rules`, `system_prompt`."""
    return _SCAFFOLD.fullmatch(name.lower()) is not None


def is_system_text(name: str) -> bool:
    """Whether a name is one of a system message: `system_prompt`."""
    return _SYSTEM_TEXT.fullmatch(name.lower()) is not None


def is_history(name: str) -> bool:
    """Whether a name is one of a conversation's messages."""
    return _HISTORY.fullmatch(name.lower()) is not None


def is_examples(name: str) -> bool:
    """Whether a name is one of few-shot examples."""
    return _EXAMPLES.fullmatch(name.lower()) is not None


def is_summary(name: str) -> bool:
    """Whether a name is one of a summary of earlier turns."""
    return _SUMMARY.fullmatch(name.lower()) is not None


def is_carrier(name: str) -> bool:
    """Whether an unknown function by that name gives back its argument, more or less."""
    return _CARRIERS.fullmatch(name.lower()) is not None


def is_prompt_builder(name: str) -> bool:
    """Whether a function by that name returns a prompt."""
    return _PROMPT_BUILDERS.fullmatch(name.lower()) is not None


def is_model_call(name: str) -> bool:
    """Whether an unknown function by that name, given messages, sends them to a model."""
    lower = name.lower()
    return bool(_MODEL_CALLS.fullmatch(lower)) and not _NOT_MODEL_CALLS.fullmatch(lower)


def is_tool_choice(name: str) -> bool:
    """Whether a value's name is that of a call which chooses tools: `relevant_tools()`."""
    return _TOOL_CHOICE.fullmatch(name.lower()) is not None


def is_static_loader(name: str) -> bool:
    """Whether a function by that name reads a text that stays the same."""
    return _STATIC_LOADERS.fullmatch(name.lower()) is not None
