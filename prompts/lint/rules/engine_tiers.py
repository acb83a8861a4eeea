"""FW715, FW728 to FW731, FW737, FW738, FW742: KV between the engine and the tier server.

Judged in `cache.engine_config`.
"""

from prompts.lint.findings import Confidence, Severity
from prompts.lint.rule import Rule, Subject

_SUBJECTS = (Subject.ENGINE_CONFIG,)


class ChunkSplitsPage(Rule):
    """LMCache's chunk is no multiple of SGLang's page.

    ## What it does
    Compares `--chunk-size` of the tier server (256 if it isn't given) with the engine's
    `--page-size`.

    ## Why it costs
    SGLang refuses to start. And what is shorter than a chunk never reaches a tier: keep it small.

    ## Example
    ```sh
    --enable-lmcache --page-size 64
    lmcache server --chunk-size 96 --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Use instead
    ```sh
    --enable-lmcache --page-size 64
    lmcache server --chunk-size 128 --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py.
    """

    code = "FW715"
    name = "chunk-splits-page"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class TransferModeDiffers(Rule):
    """Engine and tier server move KV in different ways.

    ## What it does
    Finds tier servers in the mode `lmcache_driven`, which is the default, for an engine on a CPU,
    or with a `--shm-name`, which that mode doesn't use; and engines on a CPU that are told to use
    it.

    ## Why it costs
    On a CPU SGLang moves KV itself (`engine_driven`); a server without that mode takes nothing.
    Forced into `lmcache_driven` there, it serves wrong answers.

    ## Example
    ```sh
    --enable-lmcache --device cpu
    lmcache server --l1-size-gb 1 --eviction-policy LRU
    ```

    ## Use instead
    ```sh
    --enable-lmcache --device cpu
    lmcache server --l1-size-gb 1 --eviction-policy LRU --supported-transfer-mode auto \\
      --shm-name foreword --no-l1-use-lazy
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/multiprocess/transfer_mode.py, v1/multiprocess/server.py.
    """

    code = "FW728"
    name = "transfer-mode-differs"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class ShmNameMissing(Rule):
    """KV is pickled through a socket.

    ## What it does
    Finds tier servers of engines on a CPU without `--shm-name`.

    ## Why it costs
    Without shared memory LMCache pickles each chunk and sends it through a socket, both ways.

    ## Example
    ```sh
    --enable-lmcache --device cpu
    lmcache server --l1-size-gb 1 --eviction-policy LRU --supported-transfer-mode auto
    ```

    ## Use instead
    A name that stays, so that the next start removes what a killed server left behind.
    ```sh
    --enable-lmcache --device cpu
    lmcache server --l1-size-gb 1 --eviction-policy LRU --supported-transfer-mode auto \\
      --shm-name foreword --no-l1-use-lazy
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/multiprocess/config.py, `shm_name`.
    """

    code = "FW729"
    name = "shm-name-missing"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class LayersKeptTogether(Rule):
    """A hybrid model's layers are kept as one.

    ## What it does
    Finds tier servers without `--separate-object-groups` for a model whose name says that some
    layers have sliding windows or recurrent states.

    ## Why it costs
    SGLang only logs a warning. Layers with a window need other KV of a prefix than those without,
    and LMCache tells them apart only with the flag.

    ## Example
    ```sh
    --enable-lmcache --model-path openai/gpt-oss-20b
    lmcache server --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Use instead
    ```sh
    --enable-lmcache --lmcache-config-file lmcache.yaml --config engine.yaml \\
      --model-path openai/gpt-oss-20b
    lmcache server --l1-size-gb 16 --eviction-policy LRU --separate-object-groups
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py; SGLang 0.5.23,
    srt/configs/model_config.py, `is_hybrid_swa_model`.
    """

    code = "FW730"
    name = "layers-kept-together"
    severity = Severity.WARNING
    confidence = Confidence.SUSPECTED
    subjects = _SUBJECTS


class IsolatedWithoutQuotas(Rule):
    """Eviction by salt needs a quota for each salt.

    ## What it does
    Finds the eviction policy `IsolatedLRU`, of the tier server or of an adapter. Quotas can't be
    configured, only set over HTTP, so whether they are is not known (*suspected*).

    ## Why it costs
    A salt without a quota has a limit of 0: whatever it stored goes at the next eviction. A tenant
    who is new has none.

    ## Example
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy IsolatedLRU
    ```

    ## Use instead
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/distributed/storage_controllers/eviction_controller.py.
    """

    code = "FW731"
    name = "isolated-without-quotas"
    severity = Severity.WARNING
    confidence = Confidence.SUSPECTED
    subjects = _SUBJECTS


class IpcApart(Rule):
    """Engine and tier server have no memory in common.

    ## What it does
    Finds an engine and a tier server in containers with IPC namespaces of their own, and
    `--isolated-ipc`, which SGLang's side doesn't have.

    ## Why it costs
    KV passes by CUDA IPC or shared memory, which end at the namespace: registration fails, or each
    store and load does.

    ## Example
    ```yaml
    services:
      engine:
        image: lmsysorg/sglang
        command: [--enable-lmcache]
      tier:
        image: lmcache/standalone
        command: [lmcache, server, --l1-size-gb, "16", --eviction-policy, LRU]
    ```

    ## Use instead
    ```yaml
    services:
      engine:
        image: lmsysorg/sglang
        ipc: "service:tier"
        command: [--enable-lmcache]
      tier:
        image: lmcache/standalone
        ipc: shareable
        command: [lmcache, server, --l1-size-gb, "16", --eviction-policy, LRU]
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, `lmcache server --help`, `--isolated-ipc`; the Compose specification, `ipc`.
    """

    code = "FW737"
    name = "ipc-apart"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class ShmTooSmall(Rule):
    """Shared memory is smaller than the tier's RAM.

    ## What it does
    Compares `--l1-size-gb` with the size of the container's /dev/shm (64 MiB if nothing is said).

    ## Why it costs
    LMCache then gives shared memory up and pickles every chunk through a socket; only its log says
    so.

    ## Example
    ```yaml
    services:
      tier:
        image: lmcache/standalone
        shm_size: 8gb
        command: >
          lmcache server --l1-size-gb 16 --eviction-policy LRU
          --supported-transfer-mode auto --shm-name foreword
    ```

    ## Use instead
    ```yaml
    services:
      tier:
        image: lmcache/standalone
        shm_size: 20gb
        command: >
          lmcache server --l1-size-gb 16 --eviction-policy LRU
          --supported-transfer-mode auto --shm-name foreword
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/multiprocess/server.py.
    """

    code = "FW738"
    name = "shm-too-small"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class HashPerProcess(Rule):
    """Keys in the tiers differ after each restart.

    ## What it does
    Finds `--hash-algorithm builtin` without `PYTHONHASHSEED`.

    ## Why it costs
    Python's own hash is seeded anew in every process: what an earlier one stored is never found
    again, and fills SSD and Redis.

    ## Example
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU --hash-algorithm builtin
    ```

    ## Use instead
    ```sh
    lmcache server --l1-size-gb 16 --eviction-policy LRU --hash-algorithm blake3
    ```

    ## Fix safety
    No fix.

    ## References
    LMCache 0.5.6, v1/multiprocess/token_hasher.py.
    """

    code = "FW742"
    name = "hash-per-process"
    severity = Severity.WARNING
    subjects = _SUBJECTS


RULES: tuple[type[Rule], ...] = (
    ChunkSplitsPage,
    TransferModeDiffers,
    ShmNameMissing,
    LayersKeptTogether,
    IsolatedWithoutQuotas,
    IpcApart,
    ShmTooSmall,
    HashPerProcess,
)
