"""Network access of a run, limited to its granted hosts."""
