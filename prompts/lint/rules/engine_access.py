"""FW724 to FW727, FW735, FW736: who reaches what, and flags that aren't what they seem.

Judged in `cache.engine_config`.
"""

from prompts.lint.findings import Confidence, Severity
from prompts.lint.rule import Rule, Subject

_SUBJECTS = (Subject.ENGINE_CONFIG,)


class OneKeyForAll(Rule):
    """Whoever may ask may also administer.

    ## What it does
    Finds engines with an API key and without `--admin-api-key`.

    ## Why it costs
    The engine's API key then opens its administration too: any client can flush the cache for all
    tenants or change the model's weights.

    ## Example
    ```sh
    sglang serve --model-path /models/qwen3-8b --api-key $KEY
    ```

    ## Use instead
    A file for `--config` that only the engine's user can read.
    ```yaml
    api-key: first
    admin-api-key: second
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/utils/auth.py, `decide_request_auth`.
    """

    code = "FW724"
    name = "one-key-for-all"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class SecretInArguments(Rule):
    """A password is among a program's arguments.

    ## What it does
    Finds passwords in `--l2-adapter`, `--requirepass` and `--masterauth` of Redis, and keys of
    SGLang on its command line.

    ## Why it costs
    Every user of the machine can read the arguments of every process (`ps`), and they end up in
    logs.

    ## Example
    ```sh
    --l2-adapter '{"type":"resp","host":"kv","port":6379,"password":"hunter2",
      "serde":{"type":"foreword_aead"}}'
    ```

    ## Use instead
    `LMCACHE_RESP_USERNAME` and `LMCACHE_RESP_PASSWORD` in the tier server's environment.
    ```sh
    --l2-adapter '{"type":"resp","host":"kv","port":6379,"serde":{"type":"foreword_aead"}}'
    ```

    ## Fix safety
    No fix: change the password too, it has been seen.

    ## References
    LMCache 0.5.6, v1/distributed/l2_adapters/resp_l2_adapter.py.
    """

    code = "FW725"
    name = "secret-in-arguments"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class FlagGivenTwice(Rule):
    """A flag is given twice with different values.

    ## What it does
    Finds options that are given several times, where a parser keeps only the last.

    ## Why it costs
    One of them is what somebody meant, and has no effect.

    ## Example
    ```sh
    --page-size 64 --enable-cache-report --page-size 16
    ```

    ## Use instead
    ```sh
    --page-size 64 --enable-cache-report
    ```

    ## Fix safety
    No fix.

    ## References
    Python's argparse, `store`.
    """

    code = "FW726"
    name = "flag-given-twice"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class UnknownFlag(Rule):
    """A flag looks mistyped.

    ## What it does
    Finds flags that SGLang 0.5.23 or `lmcache server` 0.5.6 doesn't know and that are close to one
    that it does. Other unknown flags may be a newer release's, and are left alone.

    ## Why it costs
    The program refuses to start.

    ## Example
    ```sh
    --enable-cache-reports --page-size 64
    ```

    ## Use instead
    ```sh
    --enable-cache-report --page-size 64
    ```

    ## Fix safety
    No fix.

    ## References
    The argument parsers of both.
    """

    code = "FW727"
    name = "unknown-flag"
    severity = Severity.NOTE
    confidence = Confidence.SUSPECTED
    subjects = _SUBJECTS


class PortExposed(Rule):
    """Other machines reach a port that asks for no key.

    ## What it does
    Finds ports of engines, tier servers, KV events and Redis that a container publishes on other
    addresses than this machine's own; and programs outside containers that listen on such an
    address (*suspected*: a firewall may stand before them).

    ## Why it costs
    Nothing in tokens. But an engine serves any salt to whoever asks, a tier server's HTTP port
    reads and clears everybody's KV, and KV events are the prompts themselves, as token ids.

    ## Example
    ```yaml
    services:
      tier:
        image: lmcache/standalone
        command: [lmcache, server, --http-host, 0.0.0.0, --l1-size-gb, "16", --eviction-policy, LRU]
        ports: ["8080:8080"]
    ```

    ## Use instead
    Containers of one network reach each other without it.
    ```yaml
    services:
      tier:
        image: lmcache/standalone
        command: [lmcache, server, --http-host, 0.0.0.0, --l1-size-gb, "16", --eviction-policy, LRU]
        ports: ["127.0.0.1:8080:8080"]
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, `lmcache server --help`, `--http-host`; SGLang 0.5.23, srt/utils/auth.py.
    """

    code = "FW735"
    name = "port-exposed"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class ScriptsOverHttp(Rule):
    """The tier server runs whatever Python it is sent.

    ## What it does
    Finds `--run-script-api-enabled`.

    ## Why it costs
    Whoever reaches the HTTP port, which asks for no key, runs code in the process that holds the
    keys of all KV.

    ## Example
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU --run-script-api-enabled
    ```

    ## Use instead
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, `lmcache server --help`, `--run-script-api-enabled`.
    """

    code = "FW736"
    name = "scripts-over-http"
    severity = Severity.ERROR
    subjects = _SUBJECTS


RULES: tuple[type[Rule], ...] = (
    OneKeyForAll,
    SecretInArguments,
    FlagGivenTwice,
    UnknownFlag,
    PortExposed,
    ScriptsOverHttp,
)
