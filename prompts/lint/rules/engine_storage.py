"""FW732 to FW734, FW743 to FW748: what KV is kept in: L2 adapters and Redis.

Judged in `cache.engine_config`.
"""

from prompts.lint.findings import Severity
from prompts.lint.rule import Rule, Subject

_SUBJECTS = (Subject.ENGINE_CONFIG,)


class AdapterUnbounded(Rule):
    """Nothing bounds what an L2 adapter writes.

    ## What it does
    Finds adapters `fs_native` without `max_capacity_gb`, any adapter with `max_capacity_gb` and
    without `eviction`, and the adapter `fs`, which has no bound.

    ## Why it costs
    A capacity without an eviction block is only counted. The disk fills up; then stores fail, and
    not only LMCache's.

    ## Example
    ```sh
    --l2-adapter '{"type":"fs_native","base_path":"/kv","max_capacity_gb":100,
      "serde":{"type":"foreword_aead"}}'
    ```

    ## Use instead
    ```sh
    --l2-adapter '{"type":"fs_native","base_path":"/kv","max_capacity_gb":100,
      "eviction":{"eviction_policy":"LRU"},"serde":{"type":"foreword_aead"}}'
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/distributed/l2_adapters/fs_native_l2_adapter.py.
    """

    code = "FW732"
    name = "adapter-unbounded"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class AdapterUnauthenticated(Rule):
    """KV at rest can be read and changed.

    ## What it does
    Finds adapters that keep KV on disk or in another service without the serde `foreword_aead`.

    ## Why it costs
    KV is its users' text. Plain files were seen to serve a damaged chunk, and `aesgcm` another
    chunk's file: wrong answers without a word. Foreword's serde binds each object to its key and
    deletes what fails.

    ## Example
    ```sh
    --l2-adapter '{"type":"resp","host":"127.0.0.1","port":6379}'
    ```

    ## Use instead
    ```sh
    --l2-adapter '{"type":"resp","host":"127.0.0.1","port":6379,"serde":{"type":"foreword_aead"}}'
    ```

    ## Fix safety
    No fix: the serde needs a key file and `foreword_guard.tier`.

    ## References
    deploy/engine-guard/README.md.
    """

    code = "FW733"
    name = "adapter-unauthenticated"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class AdapterUnusable(Rule):
    """LMCache can't use an L2 adapter.

    ## What it does
    Finds values of `--l2-adapter` that are no JSON object with a `type` that LMCache 0.5.6 knows.

    ## Why it costs
    The tier server doesn't start.

    ## Example
    A shell takes the quotes away.
    ```sh
    --l2-adapter {"type":"resp","host":"127.0.0.1"}
    ```

    ## Use instead
    ```sh
    --l2-adapter '{"type":"resp","host":"127.0.0.1","port":6379,"serde":{"type":"foreword_aead"}}'
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/distributed/l2_adapters/config.py.
    """

    code = "FW734"
    name = "adapter-unusable"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class RedisEvictsState(Rule):
    """A Redis for state may delete it.

    ## What it does
    Finds a `maxmemory-policy` other than `noeviction` in a Redis that keeps state: one whose
    address a service that is no tier server has, that has an append-only file, or that is named so.

    ## Why it costs
    When it is full, queued requests, locks and rate limits go, as if they could be made again.

    ## Example
    ```conf
    appendonly yes
    maxmemory 2gb
    maxmemory-policy allkeys-lru
    ```

    ## Use instead
    ```conf
    appendonly yes
    maxmemory 2gb
    maxmemory-policy noeviction
    ```

    ## Fix safety
    No fix.

    ## References
    Redis 7, redis.conf, `maxmemory-policy`.
    """

    code = "FW743"
    name = "redis-evicts-state"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class RedisKeepsOldKv(Rule):
    """A full Redis refuses new KV.

    ## What it does
    Finds a Redis that a tier server uses without one of the policies `allkeys-…`.

    ## Why it costs
    LMCache's keys never expire. With `noeviction`, the default, and with `volatile-…` a full Redis
    keeps the oldest KV for ever and refuses what is asked for now.

    ## Example
    ```yaml
    services:
      tier:
        image: lmcache/standalone
        command:
          - --l2-adapter
          - '{"type":"resp","host":"kv","port":6379,"serde":{"type":"foreword_aead"}}'
      kv:
        image: redis:7
        command: [redis-server, --save, "", --maxmemory, 8gb]
    ```

    ## Use instead
    ```yaml
    services:
      tier:
        image: lmcache/standalone
        command:
          - --l2-adapter
          - '{"type":"resp","host":"kv","port":6379,"serde":{"type":"foreword_aead"}}'
      kv:
        image: redis:7
        command: [redis-server, --save, "", --maxmemory, 8gb, --maxmemory-policy, allkeys-lru]
    ```

    ## Fix safety
    No fix.

    ## References
    Redis 7, redis.conf, `maxmemory-policy`.
    """

    code = "FW744"
    name = "redis-keeps-old-kv"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class RedisPersistsKv(Rule):
    """A Redis for KV writes it to disk.

    ## What it does
    Finds snapshots (`save`, on by default) and append-only files of a Redis that a tier server
    uses.

    ## Why it costs
    A snapshot forks the process and may double its memory; the log writes every chunk again. KV can
    be computed again, and the SSD tier keeps it better.

    ## Example
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU \\
      --l2-adapter '{"type":"resp","host":"127.0.0.1","port":6380,"serde":{"type":"foreword_aead"}}'
    redis-server --port 6380 --maxmemory 8gb --maxmemory-policy allkeys-lru
    ```

    ## Use instead
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU \\
      --l2-adapter '{"type":"resp","host":"127.0.0.1","port":6380,"serde":{"type":"foreword_aead"}}'
    redis-server --port 6380 --maxmemory 8gb --maxmemory-policy allkeys-lru --save ""
    ```

    ## Fix safety
    No fix.

    ## References
    Redis 7, redis.conf, `save`, `appendonly`.
    """

    code = "FW745"
    name = "redis-persists-kv"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class RedisUnbounded(Rule):
    """A Redis that should evict has no bound.

    ## What it does
    Finds a Redis for KV, or with an evicting policy, without `maxmemory`.

    ## Why it costs
    Without a bound the policy never works: Redis grows until the machine kills it, or the engine
    beside it.

    ## Example
    ```conf
    port 6380
    save ""
    maxmemory-policy allkeys-lru
    ```

    ## Use instead
    ```conf
    port 6380
    save ""
    maxmemory 8gb
    maxmemory-policy allkeys-lru
    ```

    ## Fix safety
    No fix.

    ## References
    Redis 7, redis.conf, `maxmemory`.
    """

    code = "FW746"
    name = "redis-unbounded"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class RedisForBoth(Rule):
    """One Redis keeps KV and state.

    ## What it does
    Finds a Redis that a tier server's adapter addresses and another service too.

    ## Why it costs
    KV must be evicted, state must never be: whichever policy is set is wrong for one of them.

    ## Example
    ```yaml
    services:
      gateway:
        image: gateway
        environment: {REDIS_URL: "redis://redis:6379/0"}
      tier:
        image: lmcache/standalone
        command:
          - --l2-adapter
          - '{"type":"resp","host":"redis","port":6379,"serde":{"type":"foreword_aead"}}'
      redis:
        image: redis:7
    ```

    ## Use instead
    ```yaml
    services:
      gateway:
        image: gateway
        environment: {REDIS_URL: "redis://state:6379/0"}
      tier:
        image: lmcache/standalone
        command:
          - --l2-adapter
          - '{"type":"resp","host":"kv","port":6379,"serde":{"type":"foreword_aead"}}'
      kv:
        image: redis:7
        command: [redis-server, --save, "", --maxmemory, 8gb, --maxmemory-policy, allkeys-lru]
      state:
        image: redis:7
        command: [redis-server, --appendonly, "yes"]
    ```

    ## Fix safety
    No fix.

    ## References
    Redis 7, redis.conf.
    """

    code = "FW747"
    name = "redis-for-both"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class LossySerde(Rule):
    """KV is kept with less precision than it had.

    ## What it does
    Finds adapters with the serdes `fp8`, `turboquant` and `asym_k16_v8`.

    ## Why it costs
    Nothing in tokens: a tier holds more. But a prompt from such a tier gives other answers than one
    from the GPU, so the same request is answered differently from time to time.

    ## Example
    ```sh
    --l2-adapter '{"type":"fs_native","base_path":"/kv","max_capacity_gb":100,
      "eviction":{"eviction_policy":"LRU"},"serde":{"type":"fp8"}}'
    ```

    ## Use instead
    ```sh
    --l2-adapter '{"type":"fs_native","base_path":"/kv","max_capacity_gb":100,
      "eviction":{"eviction_policy":"LRU"},"serde":{"type":"foreword_aead"}}'
    ```

    ## Fix safety
    No fix: it is a trade of room against exactness.

    ## References
    LMCache 0.5.6, v1/distributed/serde/.
    """

    code = "FW748"
    name = "lossy-serde"
    severity = Severity.NOTE
    subjects = _SUBJECTS


RULES: tuple[type[Rule], ...] = (
    AdapterUnbounded,
    AdapterUnauthenticated,
    AdapterUnusable,
    RedisEvictsState,
    RedisKeepsOldKv,
    RedisPersistsKv,
    RedisUnbounded,
    RedisForBoth,
    LossySerde,
)
