"""What crosses the fork: jobs, outcomes, plans, and the frames in which the child answers."""
