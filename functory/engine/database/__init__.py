"""The database: one connection pool, one transaction type, both SQL dialects."""
