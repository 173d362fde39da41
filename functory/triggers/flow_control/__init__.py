"""Flow control of a trigger: limits and delays its matches, and sets their order."""
