"""The execution state machine; each transition is one transaction."""
