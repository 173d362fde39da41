"""Alembic migrations. ``functory db upgrade`` runs them; ``functory.engine.database.migrations`` finds them in here."""
