"""Names of tables before revision 0007 renamed them; a backup before the upgrade has to know them."""

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
