"""Values to text and back: JSON, durations, media types, JSON Schema."""
