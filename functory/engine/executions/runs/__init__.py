"""Runs of agents: their steps, what they wait for, and the transactions that lead from one step to the next."""
