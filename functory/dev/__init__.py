"""``functory dev``: every role in one process, with a live feed of events."""
