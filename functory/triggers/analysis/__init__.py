"""Questions that people ask about triggers; nothing is written."""
