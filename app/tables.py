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
