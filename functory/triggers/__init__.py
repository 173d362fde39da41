"""From event to execution: patterns, conditions, guards, the router; and the sources of events."""
