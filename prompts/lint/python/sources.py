"""Calls and attributes of well-known libraries whose value differs between runs."""

import re

from prompts.lint.python.taints import Kind

_CLOCKS = """
datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today
time.time time.time_ns time.monotonic time.perf_counter time.ctime time.asctime time.localtime
time.gmtime pendulum.now pendulum.today arrow.now arrow.utcnow django.utils.timezone.now
django.utils.timezone.localtime pandas.Timestamp.now pandas.Timestamp.utcnow
pandas.Timestamp.today whenever.Instant.now whenever.ZonedDateTime.now
"""
_IDENTIFIERS = """
uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 secrets.token_hex secrets.token_urlsafe
secrets.token_bytes secrets.randbelow secrets.randbits os.urandom random.random random.randint
random.randrange random.uniform random.getrandbits random.gauss random.randbytes
numpy.random.rand numpy.random.randint numpy.random.random numpy.random.uniform
numpy.random.randn nanoid.generate ulid.new ulid.ULID shortuuid.uuid shortuuid.random
cuid.cuid bson.ObjectId
"""
_SAMPLES = """
random.sample random.choice random.choices numpy.random.choice numpy.random.permutation
secrets.choice
"""
_LISTINGS = """
os.listdir os.scandir os.walk glob.glob glob.iglob pathlib.Path.iterdir pathlib.Path.glob
pathlib.Path.rglob
"""
_MACHINE = """
socket.gethostname socket.getfqdn platform.node platform.platform platform.system
platform.release platform.version platform.machine platform.uname platform.python_version
os.getcwd os.getcwdb os.getpid os.getppid os.uname os.getlogin getpass.getuser pathlib.Path.cwd
pathlib.Path.home threading.get_ident locale.getlocale locale.getdefaultlocale
importlib.metadata.version id hash
"""
_LOCALE = """
locale.format_string locale.format locale.currency locale.str locale.nl_langinfo
"""


def _table(**names: str) -> dict[str, Kind]:
    return {name: Kind[kind] for kind, words in names.items() for name in words.split()}


CALLS = _table(
    CLOCK=_CLOCKS,
    IDENTIFIER=_IDENTIFIERS,
    SAMPLE=_SAMPLES,
    LISTING=_LISTINGS,
    MACHINE=_MACHINE,
    LOCALE=_LOCALE,
)
# Methods that say enough by themselves, whatever they are called on.
METHODS = _table(
    CLOCK="utcnow",
    LISTING="iterdir rglob",
    TOOL_LISTING="list_tools",
    DOCUMENTS="""similarity_search asimilarity_search similarity_search_with_score
    max_marginal_relevance_search get_relevant_documents aget_relevant_documents""",
    SAMPLE="select_examples aselect_examples",
)
# Methods of a random generator, by kind; what they are called on must be one.
RANDOM_METHODS = _table(
    SAMPLE="sample choice choices shuffle permutation",
    IDENTIFIER="random randint randrange uniform getrandbits integers",
)
RANDOM_MAKERS = frozenset(
    {"random.Random", "random.SystemRandom", "numpy.random.default_rng", "numpy.random.RandomState"}
)
RANDOM_SEEDS = frozenset({"random.seed", "numpy.random.seed"})
SHUFFLES = frozenset({"random.shuffle", "numpy.random.shuffle"})
ATTRIBUTES = _table(MACHINE="sys.version sys.platform sys.executable sys.argv os.name sys.path")
BABEL = ("babel.numbers.format_", "babel.dates.format_")
# Environment variables that differ between machines of one deployment; others are settings.
MACHINE_VARIABLE = re.compile(
    r"HOST(?:NAME)?|(?:LOG)?USER(?:NAME)?|LOGNAME|HOME|PWD|OLDPWD|LANG|LC_[A-Z]+|LANGUAGE|TZ"
    r"|COMPUTERNAME|SHELL|PATH|TMPDIR|(?:POD|NODE|CONTAINER|INSTANCE|REPLICA|WORKER|MACHINE)_?(?:NAME|ID|IP)"
    r"|(?:GIT_|COMMIT_)?SHA|GIT_COMMIT|BUILD_(?:ID|NUMBER|DATE|TIME)|.*_(?:SHA|BUILD)|DEPLOY(?:MENT)?_ID"
)
# What these give back keeps the order in which it was declared, on any machine.
ORDERED_MAKERS = frozenset(
    {
        "model_json_schema", "schema", "schema_json", "model_dump", "model_dump_json",
        "json_schema", "dataclasses.asdict", "asdict", "_asdict", "dict",
    }
)  # fmt: skip
_STRIPPED_REASONING = re.compile(r"think|reasoning|thought|scratchpad", re.IGNORECASE)
_LOCALE_DATE = re.compile(r"%[-#]?[cxX]")


def strips_reasoning(pattern: str) -> bool:
    """Whether a pattern or separator that cuts text is the mark of a model's reasoning."""
    return _STRIPPED_REASONING.search(pattern) is not None and ("<" in pattern or "[" in pattern)


def is_locale_date(template: str) -> bool:
    """Whether a `strftime` template follows the locale."""
    return _LOCALE_DATE.search(template) is not None
