"""Alembic's environment: runs on the connection that ``functory.engine.database.migrations`` hands over."""

from alembic import context

from functory.engine.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
