"""The event store: append with its outbox row, read, publish, hand to the router once."""
