"""The other systems. Each runs a task that does nothing, on the same servers, with the same number of slots."""
