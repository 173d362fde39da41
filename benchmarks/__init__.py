"""What ``make bench`` runs: figures and ratios, each beside a peer in the same run.

Absolute figures of a shared machine move by factors; the ratios are what to read and compare.
"""
