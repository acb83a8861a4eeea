"""The gateway's own tables: what keeps deleted KV from ever being addressed again."""

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
