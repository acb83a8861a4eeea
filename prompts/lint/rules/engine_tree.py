"""FW709, FW716 to FW720, FW723, FW749, FW750: flags that work against the engine's prefix tree.

Judged in `cache.engine_config`.
"""

from prompts.lint.findings import Severity
from prompts.lint.rule import Rule, Subject

_SUBJECTS = (Subject.ENGINE_CONFIG,)


class RadixCacheOff(Rule):
    """The engine's prefix cache is switched off.

    ## What it does
    Finds `--disable-radix-cache`.

    ## Why it costs
    Every prompt is computed from its first token. LMCache can't stand in: SGLang refuses it without
    the prefix tree.

    ## Example
    ```sh
    --disable-radix-cache --page-size 64
    ```

    ## Use instead
    ```sh
    --page-size 64
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, `disable_radix_cache`.
    """

    code = "FW709"
    name = "radix-cache-off"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class PriorityRefused(Rule):
    """The engine aborts requests that have a priority.

    ## What it does
    Finds `--abort-on-priority-when-disabled` without `--enable-priority-scheduling`.

    ## Why it costs
    A corpus is warmed at high priority, so that `--radix-eviction-policy priority` keeps it. Such
    an engine answers each of these requests with 503.

    ## Example
    ```sh
    python -m sglang.launch_server --model-path /models/qwen3-8b --abort-on-priority-when-disabled
    ```

    ## Use instead
    ```sh
    --enable-priority-scheduling --radix-eviction-policy priority
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/managers/scheduler.py, `_set_or_validate_priority`.
    """

    code = "FW716"
    name = "priority-refused"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class PolicyRefused(Rule):
    """The scheduling policy doesn't go with priorities.

    ## What it does
    Finds `--enable-priority-scheduling` with another `--schedule-policy` than `fcfs` or `lof`.

    ## Why it costs
    SGLang refuses to start.

    ## Example
    ```sh
    --enable-priority-scheduling --schedule-policy lpm
    ```

    ## Use instead
    ```sh
    --enable-priority-scheduling --schedule-policy fcfs
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/arg_groups/validation_hook.py.
    """

    code = "FW717"
    name = "policy-refused"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class PolicyBlind(Rule):
    """Waiting requests are ordered without a look at what is cached.

    ## What it does
    Finds the scheduling policies `random`, `lof` and `routing-key`.

    ## Why it costs
    When requests wait, those that share a prefix should run one after the other. In an order that
    has nothing to do with prefixes, the prefix is evicted in between. (`fcfs` is no better by
    itself, but the only one that serves priorities fairly.)

    ## Example
    ```sh
    --schedule-policy random
    ```

    ## Use instead
    ```sh
    --schedule-policy lpm
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/managers/schedule_policy.py, `CacheAgnosticPolicy`.
    """

    code = "FW718"
    name = "policy-blind"
    severity = Severity.NOTE
    subjects = _SUBJECTS


class AnswersNotKept(Rule):
    """Answers with thinking are not kept in the prefix tree.

    ## What it does
    Finds `--strip-thinking-cache`.

    ## Why it costs
    After an answer with thinking only the prompt's pages stay. A conversation that sends the
    answer's own tokens back, as Foreword's transcripts do, computes them again at every turn. The
    flag is right where the chat template drops thinking from the history: then those pages would
    never match.

    ## Example
    ```sh
    --reasoning-parser qwen3 --strip-thinking-cache
    ```

    ## Use instead
    ```sh
    --reasoning-parser qwen3
    ```

    ## Fix safety
    No fix: which is right depends on the chat template.

    ## References
    SGLang 0.5.23, srt/managers/schedule_batch.py, `owned_kv_len`.
    """

    code = "FW719"
    name = "answers-not-kept"
    severity = Severity.NOTE
    subjects = _SUBJECTS


class PoolBelowContext(Rule):
    """The KV pool is smaller than one prompt may be.

    ## What it does
    Finds a `--max-total-tokens` below `--context-length`.

    ## Why it costs
    Prompts between the two are refused, and a prompt near the pool's size evicts everything else
    that was kept.

    ## Example
    ```sh
    --context-length 32768 --max-total-tokens 16k
    ```

    ## Use instead
    ```sh
    --context-length 32768 --max-total-tokens 128k
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/managers/scheduler.py, `max_req_input_len`.
    """

    code = "FW720"
    name = "pool-below-context"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class TemplateFromRequest(Rule):
    """Requests may bring their own chat template.

    ## What it does
    Finds `--trust-request-chat-template`.

    ## Why it costs
    The same messages become other tokens under another template, so nothing is shared any more; and
    whoever sends requests has code of theirs rendered in the engine.

    ## Example
    ```sh
    --trust-request-chat-template
    ```

    ## Use instead
    One template for all, named at the start.
    ```sh
    --chat-template /models/qwen3-8b/chat_template.jinja
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, `trust_request_chat_template`: "off by default for safety".
    """

    code = "FW723"
    name = "template-from-request"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class PrioritiesKeepNothing(Rule):
    """Priorities have no say in what is evicted.

    ## What it does
    Finds `--enable-priority-scheduling` without `--radix-eviction-policy priority`.

    ## Why it costs
    A corpus that was warmed at high priority stays only under that policy. Under any other it goes
    as soon as it was not asked for longest, and has to be warmed again.

    ## Example
    ```sh
    --enable-priority-scheduling --radix-eviction-policy lru
    ```

    ## Use instead
    ```sh
    --enable-priority-scheduling --radix-eviction-policy priority
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/mem_cache/evict_policy.py, `PriorityStrategy`.
    """

    code = "FW749"
    name = "priorities-keep-nothing"
    severity = Severity.NOTE
    subjects = _SUBJECTS


class PrefetchWithoutDeadline(Rule):
    """Requests wait for HiCache's storage however long it takes.

    ## What it does
    Finds `--hicache-storage-prefetch-policy wait_complete` with a storage backend.

    ## Why it costs
    A slow storage adds to every first token, also where computing the prefix would be quicker. With
    `timeout`, the default, the request goes on with what has arrived.

    ## Example
    ```sh
    --enable-hierarchical-cache --hicache-storage-backend file \\
      --hicache-storage-prefetch-policy wait_complete
    ```

    ## Use instead
    ```sh
    --enable-hierarchical-cache --hicache-storage-backend file \\
      --hicache-storage-prefetch-policy timeout
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/mem_cache/unified_radix_cache.py, `_can_terminate_prefetch`.
    """

    code = "FW750"
    name = "prefetch-without-deadline"
    severity = Severity.WARNING
    subjects = _SUBJECTS


RULES: tuple[type[Rule], ...] = (
    RadixCacheOff,
    PriorityRefused,
    PolicyRefused,
    PolicyBlind,
    AnswersNotKept,
    PoolBelowContext,
    TemplateFromRequest,
    PrioritiesKeepNothing,
    PrefetchWithoutDeadline,
)
