"""Former table names: the names before revision 0007, which a backup of an older schema needs."""

FORMER_TABLES = {
    "lane": "concurrency_group",
    "once": "idempotency_key",
    "hold": "buffered_match",
    "bucket": "match_buffer",
    "widening": "grant_approval",
    "receipt": "delivery_receipt",
    "file_written": "file_write",
    "pace": "rate_limit",
    "rate": "rate_limit",
}
