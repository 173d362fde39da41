"""Messages of AMQP, Redis and in-memory queues as events."""
