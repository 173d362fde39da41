"""Rows behind rate limits, concurrency limits and buffers, exact with any number of routers."""
