"""The programs server, router, worker, scheduler and watcher, and the service loops inside them."""
