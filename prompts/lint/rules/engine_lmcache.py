"""FW710 to FW714, FW721, FW722, FW739 to FW741: SGLang's side of LMCache.

Judged in `cache.engine_config`.
"""

from prompts.lint.findings import Confidence, Severity
from prompts.lint.rule import Rule, Subject

_SUBJECTS = (Subject.ENGINE_CONFIG,)


class HicacheBesideLmcache(Rule):
    """HiCache and LMCache are both switched on.

    ## What it does
    Finds `--enable-hierarchical-cache` (or `--enable-hicache`) beside `--enable-lmcache`.

    ## Why it costs
    SGLang takes one of them and refuses to start with both.

    ## Example
    ```sh
    --enable-lmcache --enable-hierarchical-cache
    ```

    ## Use instead
    LMCache where tiers are shared or kept on SSD and Redis; HiCache where speculative decoding or
    DP attention is needed.
    ```sh
    --enable-lmcache
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/arg_groups/kv_cache_hook.py.
    """

    code = "FW710"
    name = "hicache-beside-lmcache"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class LmcacheRefused(Rule):
    """Something is switched on that does not go with LMCache.

    ## What it does
    Finds, beside `--enable-lmcache`: speculative decoding, DP attention, decode context
    parallelism, streaming sessions, prefill and decode in different engines, a switched-off prefix
    tree, the external cache linker, KV sharding, int8 Mamba checkpoints and HiCache's
    `buffer_only`, with which SGLang refuses to start; diffusion decoding and another cache backend,
    with which it starts and leaves LMCache out.

    ## Why it costs
    The engine doesn't start, or starts without tiers: everything that is evicted is computed again.

    ## Example
    ```sh
    --enable-lmcache --speculative-algorithm EAGLE3
    ```

    ## Use instead
    ```sh
    --enable-hierarchical-cache --speculative-algorithm EAGLE3
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/arg_groups/kv_cache_hook.py, kv_shard_hook.py, mamba_hook.py, dllm_hook.py,
    srt/mem_cache/registry.py.
    """

    code = "FW711"
    name = "lmcache-refused"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class LmcacheWithoutGuard(Rule):
    """Requests wait for ever when the tier server is gone.

    ## What it does
    Finds engines with `--enable-lmcache` that aren't started by `foreword_guard.engine`
    (*suspected*: the guard may be installed all the same), or whose `SGLANG_PLUGINS` leaves the
    guard out.

    ## Why it costs
    SGLang asks LMCache whether a look-up is done and has no deadline for it. A slow tier adds to
    every first token; one that died stops the engine.

    ## Example
    ```sh
    SGLANG_PLUGINS=none python -m foreword_guard.engine --enable-lmcache
    ```

    ## Use instead
    A command that starts the guard, with its deadline and breaker.
    ```sh
    python -m foreword_guard.engine --config /etc/foreword/engine.yaml --enable-lmcache
    ```

    ## Fix safety
    No fix: the plugin has to be installed beside the engine.

    ## References
    deploy/engine-guard/README.md; SGLang 0.5.23, srt/managers/scheduler.py,
    `check_prefetch_progress`.
    """

    code = "FW712"
    name = "lmcache-without-guard"
    severity = Severity.WARNING
    confidence = Confidence.SUSPECTED
    subjects = _SUBJECTS


class LmcacheWithoutAddress(Rule):
    """SGLang isn't told where the tier server is.

    ## What it does
    Finds `--enable-lmcache` without `--lmcache-config-file` (or `LMCACHE_CONFIG_FILE`), and such a
    file without `mp_host`.

    ## Why it costs
    SGLang 0.5.23 uses LMCache only as a server of its own, and refuses to start without its
    address.

    ## Example
    ```yaml
    # file: lmcache.yaml
    mp_port: 5555
    extra_config:
      lmcache.mp.mq_timeout: 3
    # file: engine.sh
    --enable-lmcache --lmcache-config-file lmcache.yaml
    ```

    ## Use instead
    ```yaml
    # file: lmcache.yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    extra_config:
      lmcache.mp.mq_timeout: 3
    # file: engine.sh
    --enable-lmcache --lmcache-config-file lmcache.yaml
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py.
    """

    code = "FW713"
    name = "lmcache-without-address"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class TierAddressDiffers(Rule):
    """SGLang looks for the tier server where it isn't.

    ## What it does
    Compares `mp_host` and `mp_port` with the tier server's port, and with the containers that both
    run in.

    ## Why it costs
    The engine doesn't start, or computes everything again.

    ## Example
    ```yaml
    # file: lmcache.yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    extra_config: {lmcache.mp.mq_timeout: 3}
    # file: engine.sh
    --enable-lmcache --lmcache-config-file lmcache.yaml
    # file: tier.sh
    lmcache server --port 5556 --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Use instead
    ```yaml
    # file: lmcache.yaml
    mp_host: 127.0.0.1
    mp_port: 5556
    extra_config: {lmcache.mp.mq_timeout: 3}
    # file: engine.sh
    --enable-lmcache --lmcache-config-file lmcache.yaml
    # file: tier.sh
    lmcache server --port 5556 --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py.
    """

    code = "FW714"
    name = "tier-address-differs"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class UnstableModelPath(Rule):
    """The model's path doesn't last, and the tiers' keys are made of it.

    ## What it does
    Finds, with LMCache, a `--model-path` in a temporary folder or one that is made up at the start.

    ## Why it costs
    LMCache keeps KV under the literal path. Under another path nothing is found again; under the
    same path with other weights, KV of the old model is served to the new one.

    ## Example
    ```sh
    --enable-lmcache --model-path /tmp/model
    ```

    ## Use instead
    A folder named by its content, or a hub's name.
    ```sh
    --enable-lmcache --lmcache-config-file lmcache.yaml --config engine.yaml \\
      --model-path /models/qwen3-8b-9c925d64
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/distributed/api.py, `ObjectKey`.
    """

    code = "FW721"
    name = "unstable-model-path"
    severity = Severity.WARNING
    confidence = Confidence.SUSPECTED
    subjects = _SUBJECTS


class ModelNameRefused(Rule):
    """The model's path holds an @.

    ## What it does
    Finds, with LMCache, a `--model-path` with an `@`.

    ## Why it costs
    LMCache separates the parts of a key with `@` and refuses such a model: nothing is stored.

    ## Example
    ```sh
    --enable-lmcache --model-path /models/qwen3-8b@main
    ```

    ## Use instead
    ```sh
    --enable-lmcache --lmcache-config-file lmcache.yaml --config engine.yaml \\
      --model-path /models/qwen3-8b-main
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/distributed/api.py, `ObjectKey`.
    """

    code = "FW722"
    name = "model-name-refused"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class LmcacheKeyIgnored(Rule):
    """A key of LMCache's settings has no effect with SGLang.

    ## What it does
    In the file for `--lmcache-config-file`, and in variables `LMCACHE_…` of an engine, finds keys
    for LMCache inside an engine's process, such as `chunk_size`, `local_cpu`, `local_disk` and
    `remote_url`.

    ## Why it costs
    SGLang 0.5.23 only talks to a tier server. The tiers that such a file describes don't exist, and
    nothing says so.

    ## Example
    ```yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    chunk_size: 64
    remote_url: redis://127.0.0.1:6379
    extra_config: {lmcache.mp.mq_timeout: 3}
    ```

    ## Use instead
    ```yaml
    # file: lmcache.yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    extra_config: {lmcache.mp.mq_timeout: 3}
    # file: tier.sh
    lmcache server --chunk-size 64 --l1-size-gb 16 --eviction-policy LRU \\
      --l2-adapter '{"type":"resp","host":"127.0.0.1","port":6379,"serde":{"type":"foreword_aead"}}'
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py reads `mp_host`, `mp_port` and
    `extra_config`.
    """

    code = "FW739"
    name = "lmcache-key-ignored"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class TierTimeoutLong(Rule):
    """Calls to a dead tier server take minutes to fail.

    ## What it does
    Finds settings for the engine's side of LMCache whose `lmcache.mp.mq_timeout` is missing (300 s)
    or above 30 s.

    ## Why it costs
    It bounds every blocking call to the tier server: a registration that isn't answered, and
    without the guard a store at the end of each request.

    ## Example
    ```yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    ```

    ## Use instead
    ```yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    extra_config:
      lmcache.mp.mq_timeout: 3
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py.
    """

    code = "FW740"
    name = "tier-timeout-long"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class HeartbeatTooRare(Rule):
    """The tier server forgets an engine that is alive.

    ## What it does
    Compares three times the engine's `lmcache.mp.heartbeat_interval` with the tier server's
    `--worker-reap-timeout-seconds`.

    ## Why it costs
    After that silence the tier server drops the engine's registration; until it registers again,
    nothing is stored or loaded.

    ## Example
    ```yaml
    # file: lmcache.yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    extra_config: {lmcache.mp.mq_timeout: 3, lmcache.mp.heartbeat_interval: 60}
    # file: engine.sh
    --enable-lmcache --lmcache-config-file lmcache.yaml
    # file: tier.sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Use instead
    ```yaml
    # file: lmcache.yaml
    mp_host: 127.0.0.1
    mp_port: 5555
    extra_config: {lmcache.mp.mq_timeout: 3, lmcache.mp.heartbeat_interval: 10}
    # file: engine.sh
    --enable-lmcache --lmcache-config-file lmcache.yaml
    # file: tier.sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, `lmcache server --help`: at least 3 times the heartbeat interval.
    """

    code = "FW741"
    name = "heartbeat-too-rare"
    severity = Severity.WARNING
    subjects = _SUBJECTS


RULES: tuple[type[Rule], ...] = (
    HicacheBesideLmcache,
    LmcacheRefused,
    LmcacheWithoutGuard,
    LmcacheWithoutAddress,
    TierAddressDiffers,
    UnstableModelPath,
    ModelNameRefused,
    LmcacheKeyIgnored,
    TierTimeoutLong,
    HeartbeatTooRare,
)
