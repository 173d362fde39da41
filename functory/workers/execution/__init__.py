"""Claim, run, finish: the executions of one worker process."""
