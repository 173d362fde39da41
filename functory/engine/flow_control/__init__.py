"""Flow control: the rows behind rate limits, concurrency limits and buffers, exact with any number of routers."""
