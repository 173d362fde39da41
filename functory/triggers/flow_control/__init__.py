"""Flow control of a trigger: how many of its matches run, when, and in which order."""
