"""Alembic migrations. ``functory db upgrade`` runs them; ``engine.migrate`` finds them in here."""
