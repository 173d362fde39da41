"""Sources of events: one plug-in for each kind of source, and the supervisor that runs them."""
