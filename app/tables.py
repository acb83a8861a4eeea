"""The gateway's own tables: what keeps deleted KV from being addressed, and corpora in use."""

import sqlalchemy as sa

from cache.tables import UtcDateTime

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# How often a tenant's KV was deleted; a tenant without a row is in epoch 0. Part of each salt.
tenant_epochs = sa.Table(
    "tenant_epochs",
    metadata,
    sa.Column("tenant", sa.String(255), primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
)

# Salts whose keys in the tiers are still to be destroyed. With a collection named, only once that
# collection is gone.
kv_deletions = sa.Table(
    "kv_deletions",
    metadata,
    sa.Column("salt", sa.String(128), primary_key=True),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("collection_id", sa.String(64)),
    sa.Column("requested_at", UtcDateTime(), nullable=False),
)

# Collections that were used as a whole, and what the engine held of them when last looked at.
corpora = sa.Table(
    "corpora",
    metadata,
    sa.Column("collection_id", sa.String(64), primary_key=True),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("address", sa.String(64)),
    sa.Column("tokens", sa.Integer),
    sa.Column("resident", sa.Boolean, nullable=False),
    sa.Column("demand", sa.Float, nullable=False),
    sa.Column("demand_at", sa.Float, nullable=False),
    sa.Column("verified_at", sa.Float),
)

# What was learned of each collection's questions, changes and finds, and the mode it stands in.
mode_learning = sa.Table(
    "mode_learning",
    metadata,
    sa.Column("collection_id", sa.String(64), primary_key=True),
    sa.Column("state", sa.JSON, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
)

# Each collection's last evaluation: for every mode one score a question.
mode_quality = sa.Table(
    "mode_quality",
    metadata,
    sa.Column("collection_id", sa.String(64), primary_key=True),
    sa.Column("metric", sa.String(32), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("model", sa.String(255), nullable=False),
    sa.Column("scores", sa.JSON, nullable=False),
    sa.Column("evaluated_at", sa.Float, nullable=False),
)

# Which secret salts are made with: one row, written by the first gateway on the database.
salt_key = sa.Table(
    "salt_key",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
)

# Keys of the HTTP interface: never the key itself, only its HMAC. One that was revoked stays, so
# that a deployment which ever had keys is never open again.
api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("priority", sa.String(16), nullable=False),
    sa.Column("hint", sa.String(16), nullable=False),
    sa.Column("created_at", UtcDateTime(), nullable=False),
    sa.Column("expires_at", UtcDateTime()),
    sa.Column("revoked_at", UtcDateTime()),
    sa.Column("replaced_by", sa.String(32)),
    sa.Column("last_used_at", UtcDateTime()),
    sa.Index("ix_api_keys_digest", "digest", unique=True),
)

# What a tenant may use, where it differs from the settings; NULL is without a limit.
tenant_limits = sa.Table(
    "tenant_limits",
    metadata,
    sa.Column("tenant", sa.String(128), primary_key=True),
    sa.Column("requests_per_min", sa.Integer),
    sa.Column("tokens_per_min", sa.BigInteger),
    sa.Column("concurrent", sa.Integer),
    sa.Column("tokens_per_day", sa.BigInteger),
    sa.Column("max_output_tokens", sa.Integer),
    sa.Column("max_prompt_tokens", sa.Integer),
    sa.Column("weight", sa.Double, nullable=False),
    sa.Column("updated_at", UtcDateTime(), nullable=False),
)

# Tokens that a tenant used on a day (UTC), by all gateways; kept for the daily quota.
tenant_days = sa.Table(
    "tenant_days",
    metadata,
    sa.Column("tenant", sa.String(128), primary_key=True),
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("tokens", sa.BigInteger, nullable=False),
)

# One row, counted up by each change of keys and limits: gateways look at it, and then at the rest.
admission_revision = sa.Table(
    "admission_revision",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
)

# What operators did, in order. Nothing here is ever changed.
audit_log = sa.Table(
    "audit_log",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", UtcDateTime(), nullable=False),
    sa.Column("key_id", sa.String(32)),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("target", sa.String(255), nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
)

# What operators ordered of replicas, by their URL: gateways may call one by different names.
# `added` replicas come from here, the others from where the settings say.
replica_orders = sa.Table(
    "replica_orders",
    metadata,
    sa.Column("url", sa.String(512), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("added", sa.Boolean, nullable=False),
    sa.Column("standing", sa.String(16), nullable=False),
    sa.Column("ordered_at", UtcDateTime(), nullable=False),
)

# Batches of requests (OpenAI's), from the moment that they are accepted. `times` are seconds since
# 1970 by the name of what happened; `owner` is the gateway that works on it, until `owned_until`.
batches = sa.Table(
    "batches",
    metadata,
    sa.Column("serial", sa.Integer, primary_key=True),
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("endpoint", sa.String(64), nullable=False),
    sa.Column("input_file_id", sa.String(64), nullable=False),
    sa.Column("output_file_id", sa.String(64)),
    sa.Column("error_file_id", sa.String(64)),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("problems", sa.JSON, nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
    sa.Column("times", sa.JSON, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("completed", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("owner", sa.String(64)),
    sa.Column("owned_until", sa.Double, nullable=False),
    sa.Index("ix_batches_id", "id", unique=True),
    sa.Index("ix_batches_tenant_serial", "tenant", "serial"),
    sa.Index("ix_batches_status", "status"),
)

# The requests of batches that aren't ended. `place` is when it is its turn; `leads` is a line that
# others after it share more with than it shares with those before; `result` is its line of output.
batch_lines = sa.Table(
    "batch_lines",
    metadata,
    sa.Column("batch_id", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("leads", sa.Boolean, nullable=False),
    sa.Column("custom_id", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("done", sa.Boolean, nullable=False),
    sa.Column("succeeded", sa.Boolean),
    sa.Column("result", sa.LargeBinary),
    sa.Index("ix_batch_lines_batch_id_done_place", "batch_id", "done", "place"),
)

# What is still to be told to webhooks, one row for each event and endpoint.
webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("endpoint", sa.String(64), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Index("ix_webhook_deliveries_due_at", "due_at"),
)

# Stored conversations. `turn` is the response that is being made in one, until `turn_until` unless
# its gateway says that it lives; `summary` stands for the items up to `summary_through`.
conversations = sa.Table(
    "conversations",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("used_at", sa.Double, nullable=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    sa.Column("options", sa.JSON, nullable=False),
    sa.Column("forked_from", sa.String(64)),
    sa.Column("next_position", sa.Integer, nullable=False),
    sa.Column("tokens", sa.Integer),
    sa.Column("summary", sa.JSON),
    sa.Column("summary_through", sa.Integer),
    sa.Column("turn", sa.String(64)),
    sa.Column("turn_until", sa.Double),
    sa.Index("ix_conversations_tenant_created_at", "tenant", "created_at"),
    sa.Index("ix_conversations_used_at", "used_at"),
)

# What was said in them, in order. An answer's last item has its token ids, as the model gave them.
conversation_items = sa.Table(
    "conversation_items",
    metadata,
    sa.Column("conversation_id", sa.String(64), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("id", sa.String(128), nullable=False),
    sa.Column("item", sa.JSON, nullable=False),
    sa.Column("output_ids", sa.LargeBinary),
    sa.Column("tokenizer", sa.String(255)),
    sa.Index("ix_conversation_items_conversation_id_id", "conversation_id", "id", unique=True),
)

# Responses that may be fetched or gone on from, each with the items that it answered.
stored_responses = sa.Table(
    "stored_responses",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("previous_id", sa.String(64)),
    sa.Column("conversation_id", sa.String(64)),
    sa.Column("response", sa.JSON, nullable=False),
    sa.Column("input", sa.JSON, nullable=False),
    sa.Column("output_ids", sa.LargeBinary),
    sa.Column("tokenizer", sa.String(255)),
    sa.Column("hidden", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("said", sa.JSON(none_as_null=True)),
    sa.Index("ix_stored_responses_conversation_id", "conversation_id"),
    sa.Index("ix_stored_responses_previous_id", "previous_id"),
    sa.Index("ix_stored_responses_hidden_created_at", "hidden", "created_at"),
)

# Runs of agents. `driven` ones are gone on with by whoever asked for them in the background, others
# by any gateway once `owned_until` is past. A sub-agent's is the call of its parent's.
agent_runs = sa.Table(
    "agent_runs",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("agent", sa.String(64), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("reason", sa.String(64)),
    sa.Column("request", sa.JSON, nullable=False),
    sa.Column("input", sa.JSON, nullable=False),
    sa.Column("conversation_id", sa.String(64)),
    sa.Column("parent_id", sa.String(64)),
    sa.Column("parent_step", sa.Integer),
    sa.Column("parent_place", sa.Integer),
    sa.Column("driven", sa.Boolean, nullable=False),
    sa.Column("cancelled", sa.Boolean, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("owner", sa.String(64)),
    sa.Column("owned_until", sa.Double, nullable=False),
    sa.Column("response", sa.JSON),
    sa.Index("ix_agent_runs_tenant_created_at", "tenant", "created_at"),
    sa.Index("ix_agent_runs_status", "status"),
    sa.Index("ix_agent_runs_conversation_id", "conversation_id"),
    sa.Index("ix_agent_runs_parent_id", "parent_id"),
)

# Their steps: what the model answered, with its token ids as it gave them.
agent_steps = sa.Table(
    "agent_steps",
    metadata,
    sa.Column("run_id", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("items", sa.JSON, nullable=False),
    sa.Column("output_ids", sa.LargeBinary),
    sa.Column("tokenizer", sa.String(255)),
    sa.Column("finish", sa.String(32)),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("report", sa.JSON, nullable=False),
)

# The calls that they asked for. `state` is `started` before the tool is called, and `done` with
# its output; `attempts` counts the starts.
agent_calls = sa.Table(
    "agent_calls",
    metadata,
    sa.Column("run_id", sa.String(64), primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("call_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("arguments", sa.Text, nullable=False),
    sa.Column("idempotent", sa.Boolean, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("output", sa.Text),
    sa.Column("is_error", sa.Boolean, nullable=False),
    sa.Column("spent", sa.JSON, nullable=False),
)

# Responses that are made in the background, from the moment that they are accepted; each has its
# row in `stored_responses`, too. `attempt` counts how often one was begun, `lost` how often a
# gateway died over it; `owner` is the gateway that makes it, until `owned_until`.
background_responses = sa.Table(
    "background_responses",
    metadata,
    sa.Column("serial", sa.Integer, primary_key=True),
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("conversation_id", sa.String(64)),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("streams", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("not_before", sa.Double, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("lost", sa.Integer, nullable=False),
    sa.Column("next_event", sa.Integer, nullable=False),
    sa.Column("owner", sa.String(64)),
    sa.Column("owned_until", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Index("ix_background_responses_id", "id", unique=True),
    sa.Index("ix_background_responses_status_tenant", "status", "tenant"),
)

# The events of those that are streamed, some in each row: numbers `first` to `last`.
background_events = sa.Table(
    "background_events",
    metadata,
    sa.Column("response_id", sa.String(64), primary_key=True),
    sa.Column("first", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("last", sa.Integer, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

# Answers that are kept to be given again to the same request, under an HMAC of all that made them.
kept_answers = sa.Table(
    "kept_answers",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("salt", sa.String(128), nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("made_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Index("ix_kept_answers_tenant", "tenant"),
    sa.Index("ix_kept_answers_salt", "salt"),
    sa.Index("ix_kept_answers_made_at", "made_at"),
    sa.Index("ix_kept_answers_expires_at", "expires_at"),
)

# How often they were given, by hours since 1970 and tenant: apart from the ledger, whose figures
# are of requests that engines answered.
kept_answer_hours = sa.Table(
    "kept_answer_hours",
    metadata,
    sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("tenant", sa.String(255), primary_key=True),
    sa.Column("answers", sa.BigInteger, nullable=False),
    sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
    sa.Column("completion_tokens", sa.BigInteger, nullable=False),
)
