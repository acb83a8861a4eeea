"""What names and calls say about a value: a clock, an id, a user's data, a question, documents…

A call is proof (`now()`), a name is a suspicion (`current_date`). Names that say nothing of the
kind (`tone`, `company`, `release_date`) are taken for constants of the deployment.
"""

import re
from enum import StrEnum
from functools import lru_cache

from prompts.segments import Volatility


class Kind(StrEnum):
    """What a value is made from."""

    CLOCK = "the clock"
    RANDOM = "randomness"
    ID = "an id"
    USER = "a user's data"
    QUESTION = "the question"
    INPUT = "the input"
    CONTEXT = "documents"
    HISTORY = "the conversation"
    SAMPLE = "chosen examples"
    EXAMPLES = "examples"
    TOOLS = "tools"
    TOOL_CHOICE = "a choice of tools"
    ENVIRONMENT = "the machine's environment"
    SUMMARY = "a summary of turns"


VOLATILITY = {
    Kind.CLOCK: Volatility.TURN,
    Kind.RANDOM: Volatility.TURN,
    Kind.ID: Volatility.TURN,
    Kind.USER: Volatility.SESSION,
    Kind.QUESTION: Volatility.TURN,
    Kind.INPUT: Volatility.TURN,
    Kind.CONTEXT: Volatility.COLLECTION,
    Kind.HISTORY: Volatility.SESSION,
    Kind.SAMPLE: Volatility.TURN,
    Kind.EXAMPLES: Volatility.STATIC,
    Kind.TOOLS: Volatility.STATIC,
    Kind.TOOL_CHOICE: Volatility.TURN,
    Kind.ENVIRONMENT: Volatility.TENANT,
    Kind.SUMMARY: Volatility.TURN,
}

_MOMENT = "date|time|datetime|timestamp|day|weekday|month|year|hour|minute|iso"
_THING = "document|doc|chunk|passage|snippet|source|article|page|result|context"

# First match wins; each is a whole name in lower case with words joined by _.
_NAMES: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            Kind.CLOCK,
            rf"now|today|todays?_date|timestamp|datetime|date_?time|date|time|unix_time|epoch"
            rf"|(?:current|today|todays|now|utc|local|present|request|system|this)"
            rf"(?:_(?:utc|local|iso))?_(?:{_MOMENT})(?:_(?:utc|iso|str|string|time|now))?"
            rf"|(?:date|time|datetime|timestamp)_(?:today|now|utc|string|str|iso)|time_now|utc_?now"
            rf"|(?:generated|rendered|requested|sent)_(?:at|on)",
        ),
        (
            Kind.ID,
            r"(?:request|trace|correlation|session|conversation|thread|run|message|span|chat|job"
            r"|txn|transaction|invocation|turn|call|event|completion|response|interaction)_?"
            r"(?:id|uuid|guid|key|token)|x_request_id|uuid4?|guid|ulid|nonce|cache_?buster|salt"
            r"|random_(?:id|seed|string|token|number)|unique_id",
        ),
        (
            Kind.QUESTION,
            r"(?:user|human|customer)s?_(?:input|query|question|message|msg|prompt|request|text)"
            r"|question|query|user_?input|input|search_query|last_(?:user_)?message|utterance"
            r"|current_(?:question|query|message|input|request)|input_(?:text|query|question)",
        ),
        (
            Kind.USER,
            r"user|user_?name|username|(?:first|last|full|display|nick)_?name"
            r"|(?:user|customer|client|member|patient|student|employee|account|tenant|caller|guest"
            r"|recipient|subscriber|candidate|player|visitor)(?:_\w+)?|e_?mail|phone(?:_number)?"
            r"|(?:current|logged_in)_user(?:_\w+)?|user_?profile|profile",
        ),
        (
            Kind.SAMPLE,
            r"(?:random|sampled|selected|similar|relevant|dynamic|retrieved|chosen|nearest|picked)"
            r"_(?:few_?shots?|examples?|shots|demonstrations|demos|exemplars)(?:_\w+)?",
        ),
        (
            Kind.EXAMPLES,
            r"(?:few_?shots?|examples|shots|demonstrations|demos|exemplars)(?:_\w+)?",
        ),
        (
            Kind.TOOL_CHOICE,
            r"(?:active|allowed|selected|enabled|filtered|relevant|chosen|current|turn)"
            r"_(?:tools|functions)(?:_\w+)?|tools_for_\w+",
        ),
        (Kind.TOOLS, r"(?:available_)?(?:tools|functions|tool_(?:list|specs?|schemas?|names))"),
        (
            Kind.SUMMARY,
            r"(?:conversation|chat|history|dialog(?:ue)?|turns?|rolling|running)_summary"
            r"|summary_(?:of_)?(?:conversation|chat|history|turns)",
        ),
        (
            Kind.HISTORY,
            r"(?:chat|conversation|message|dialog(?:ue)?)_?(?:history|log|messages|turns)|history"
            r"|messages|conversation|turns|dialog(?:ue)?|transcript"
            r"|(?:previous|past|prior|earlier|recent|last)_(?:messages|turns|conversation)",
        ),
        (
            Kind.CONTEXT,
            rf"contexts?|context_(?:str|string|text|data|info|block|docs|documents|chunks)|docs|documents|chunks|passages"
            rf"|snippets|sources|evidence|knowledge|hits|search_results|retrieval_results"
            rf"|(?:retrieved|relevant|search|rag|found|matching|top_k|source|reference)_"
            rf"(?:{_THING})s?(?:_\w+)?|(?:{_THING})_(?:list|text|chunks|str)",
        ),
        (
            Kind.INPUT,
            r"text|task|code|content|body|diff|patch|article|essay|ticket|issue|review|paragraph"
            r"|sentence|html|payload|report|problem|topic|utterances?|email_(?:text|body|content)"
            r"|(?:input|source|document|article|code)_text|(?:issue|task|ticket|problem)_"
            r"(?:description|statement|text|body)|\w+_(?:input|query|question)",
        ),
        (
            Kind.ENVIRONMENT,
            r"host_?name|cwd|current_(?:dir|directory|working_directory)|working_dir(?:ectory)?"
            r"|environ|env|git_(?:sha|commit|branch)|build_(?:id|number|time|date|sha)|pid"
            r"|(?:ip|mac)_address|machine_name|server_name",
        ),
    )
)

_CALLS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            Kind.CLOCK,
            r"(?:\w+\.)*(?:now|utcnow|utc_now|today|strftime_now|localtime|gmtime|time_ns|monotonic"
            r"|perf_counter|timestamp_now|current_(?:date|time|datetime|timestamp))"
            r"|time\.time|time\.strftime|time\.ctime|time\.asctime",
        ),
        (
            Kind.RANDOM,
            r"(?:\w+\.)*(?:uuid[1345]?|uuid7|token_(?:hex|urlsafe|bytes)|randint|randrange|urandom"
            r"|getrandbits|random_(?:string|id|int|number|choice)|ulid|nanoid|guid|lipsum|randbytes)"
            r"|random(?:\.\w+)?|(?:numpy|np)\.random\.\w+|secrets\.\w+|(?:rng|rand)\.\w+"
            r"|(?:shuffle|sample)",
        ),
        (
            Kind.ENVIRONMENT,
            r"(?:\w+\.)*(?:getenv|gethostname|getcwd|getpid|getuser|getlocale|node)"
            r"|env|env_var|environ(?:\.get)?|os\.environ\.get|platform\.\w+|cwd|hostname",
        ),
    )
)

_CALL_FILTERS = {
    "random": Kind.RANDOM,
    "shuffle": Kind.RANDOM,
    "sample": Kind.RANDOM,
    "random_choice": Kind.RANDOM,
    "random_mac": Kind.RANDOM,
    "env_override": Kind.ENVIRONMENT,
}

_VERB = re.compile(r"^(?:get|fetch|make|create|generate|load|build|new|render|format)_?")
_WORD_SEAM = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def kind_of_name(name: str) -> Kind | None:
    """What a variable or attribute of that name probably holds."""
    plain = _WORD_SEAM.sub("_", name).lower().replace("-", "_").strip("_")
    for kind, pattern in _NAMES:
        if pattern.fullmatch(plain):
            return kind
    return None


def kind_of_function(dotted: str) -> Kind | None:
    """What a function of that name probably returns: `get_user_name`, `fetch_documents`."""
    return kind_of_name(_VERB.sub("", dotted.rpartition(".")[2]))


@lru_cache(maxsize=4096)
def kind_of_call(dotted: str) -> Kind | None:
    """What a call of a function or method of that dotted name certainly gives."""
    for kind, pattern in _CALLS:
        if pattern.fullmatch(dotted):
            return kind
    return None


def kind_of_filter(name: str) -> Kind | None:
    """What a filter adds to its input."""
    return _CALL_FILTERS.get(name)
