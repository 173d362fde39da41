"""CEL conditions and values, with a bound on the work of one evaluation."""
