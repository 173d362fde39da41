"""One connection pool, one transaction type, both SQL dialects."""
