"""The event store: an event is appended with its outbox row, read, published, and given to the router once."""
