"""Alembic's entry: runs the migrations on the connection that `app.database` hands over."""

from alembic import context

from app.tables import metadata as app_metadata
from cache.tables import metadata as cache_metadata
from retrieval.tables import metadata as retrieval_metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=[app_metadata, cache_metadata, retrieval_metadata],
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
