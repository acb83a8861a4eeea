"""FW703 to FW708, FW751: engines and tiers that don't say what they do. Judged in
`cache.engine_config`."""

from prompts.lint.findings import Severity
from prompts.lint.rule import Rule, Subject

_SUBJECTS = (Subject.ENGINE_CONFIG,)


class CacheReportOff(Rule):
    """The engine doesn't report cached tokens.

    ## What it does
    Finds engines without `--enable-cache-report`.

    ## Why it costs
    Without the flag `usage` has no `prompt_tokens_details`: what a request re-used is unknown, and
    so are its verdict, the hit rate and every alert that rests on them.

    ## Example
    ```sh
    python -m sglang.launch_server --model-path /models/qwen3-8b
    ```

    ## Use instead
    ```sh
    --enable-cache-report
    ```

    ## Fix safety
    No fix: the flag only adds a number to each response, so add it by hand.

    ## References
    SGLang 0.5.23, `enable_cache_report`.
    """

    code = "FW703"
    name = "cache-report-off"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class MetricsOff(Rule):
    """The engine or the tier server publishes no metrics.

    ## What it does
    Finds engines without `--enable-metrics`, and tier servers with `--disable-observability` or
    `--disable-metrics`.

    ## Why it costs
    The ledger is checked against the engine's own counters, and savings are counted with its
    measured prefill speed: without metrics there is neither.

    ## Example
    ```sh
    python -m sglang.launch_server --model-path /models/qwen3-8b
    ```

    ## Use instead
    ```sh
    --enable-metrics --tokenizer-metrics-allowed-custom-labels template tenant
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, `enable_metrics`; LMCache 0.5.6, `lmcache server --help`.
    """

    code = "FW704"
    name = "metrics-off"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class LabelsNotCounted(Rule):
    """The engine doesn't count tokens by template and tenant.

    ## What it does
    Finds engines with metrics whose `--tokenizer-metrics-allowed-custom-labels` lacks `template` or
    `tenant`.

    ## Why it costs
    The gateway sends both with every request. Only an engine that counts by them can confirm what a
    report says of one template: `sglang:cached_tokens_total{cache_source, template, tenant}`.

    ## Example
    ```sh
    --enable-metrics --tokenizer-metrics-allowed-custom-labels template
    ```

    ## Use instead
    ```sh
    --enable-metrics --tokenizer-metrics-allowed-custom-labels template tenant
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, `tokenizer_metrics_allowed_custom_labels`.
    """

    code = "FW705"
    name = "labels-not-counted"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class KvEventsOff(Rule):
    """The engine doesn't tell what it stores and evicts.

    ## What it does
    Finds engines without `--kv-events-config`, or whose publisher is not `zmq`.

    ## Why it costs
    Without KV events nobody knows what is still in GPU memory: an evicted prefix can't be told from
    one that another replica holds, and requests are routed by guesses.

    ## Example
    SGLang's default publisher is none.
    ```sh
    --kv-events-config '{"endpoint":"tcp://*:5557"}'
    ```

    ## Use instead
    ```sh
    --kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557",
      "replay_endpoint":"tcp://*:5558"}'
    ```

    ## Fix safety
    No fix: events hold the prompts' token ids, so choose who may hear them.

    ## References
    SGLang 0.5.23, srt/disaggregation/kv_events.py, `KVEventsConfig`.
    """

    code = "FW706"
    name = "kv-events-off"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class KvEventsUnheard(Rule):
    """The engine sends its KV events where nobody listens.

    ## What it does
    Finds a KV event endpoint with a concrete address and without `"bind":true`.

    ## Why it costs
    SGLang listens on wildcard addresses only. With any other it connects, as the subscriber does:
    both call, nobody answers, and no event ever arrives. Nothing is logged.

    ## Example
    ```sh
    --kv-events-config '{"publisher":"zmq","endpoint":"tcp://127.0.0.1:5557",
      "replay_endpoint":"tcp://127.0.0.1:5558"}'
    ```

    ## Use instead
    ```sh
    --kv-events-config '{"publisher":"zmq","endpoint":"tcp://127.0.0.1:5557",
      "bind":true,"replay_endpoint":"tcp://127.0.0.1:5558"}'
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/disaggregation/kv_events.py, `ZmqEventPublisher`.
    """

    code = "FW707"
    name = "kv-events-unheard"
    severity = Severity.ERROR
    subjects = _SUBJECTS


class KvEventsWithoutReplay(Rule):
    """Missed KV events can't be asked for again.

    ## What it does
    Finds KV events without a `replay_endpoint`.

    ## Why it costs
    ZeroMQ drops messages when a subscriber is slow or away. With a replay endpoint the gateway asks
    for what it missed; without one everything that was resident then is unknown until it is seen
    again.

    ## Example
    ```sh
    --kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557"}'
    ```

    ## Use instead
    ```sh
    --kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557",
      "replay_endpoint":"tcp://*:5558"}'
    ```

    ## Fix safety
    No fix.

    ## References
    SGLang 0.5.23, srt/disaggregation/kv_events.py, `replay_endpoint`.
    """

    code = "FW708"
    name = "kv-events-without-replay"
    severity = Severity.WARNING
    subjects = _SUBJECTS


class ToolCallsUnread(Rule):
    """The engine doesn't read its model's tool calls.

    ## What it does
    Finds engines that say of themselves (`GET /server_info`) that they have no parser of tool
    calls, or that of Foreword's guard (`foreword_json`), which reads those calls only that a
    request demands. A running engine is told so once requests bring tools; a start command isn't
    judged, since it doesn't show whether there will be any.

    ## Why it costs
    A call comes back as text: clients see none, and an agent's run ends with it. With
    `--tool-call-parser auto` SGLang tells the format by the chat template; some it can't tell,
    among them those of Llama 3, Qwen 2.5 and Mistral Small, and then starts without a parser.
    The guard gives such an engine one for calls that must come (`tool_choice` `required`, or a
    function); without it the gateway refuses requests that demand one.

    ## Example
    ```json
    {"model_path": "/models/llama-3.1-8b", "enable_cache_report": true, "tool_call_parser": null}
    ```

    ## Use instead
    ```sh
    --tool-call-parser auto
    ```

    Or by name, where the engine's log says that it could not detect one:
    ```sh
    --tool-call-parser llama3
    ```

    ## Fix safety
    No fix: which parser fits is the model's matter.

    ## References
    SGLang 0.5.23, `tool_call_parser`; srt/parser/template_detection.py, `TOOL_CALL_PARSER_RULES`.
    """

    code = "FW751"
    name = "tool-calls-unread"
    severity = Severity.NOTE
    subjects = _SUBJECTS


RULES: tuple[type[Rule], ...] = (
    CacheReportOff,
    MetricsOff,
    LabelsNotCounted,
    KvEventsOff,
    KvEventsUnheard,
    KvEventsWithoutReplay,
    ToolCallsUnread,
)
