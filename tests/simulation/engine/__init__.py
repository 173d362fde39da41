"""The whole engine in one thread, under a virtual clock and faults that a seed draws.

What runs is the engine's own code over SQLite in memory: routers, flow control, dispatchers, reapers, workers'
claims and endings. What is played is what stands around it: the broker, the processes that die, the functions.

- ``world``: the scheduler, the database whose transactions may fail, the record of who did what
- ``broker``: messages that are dropped, doubled, reordered, forgotten
- ``faults``: which faults a seed draws, and the one who carries them out
- ``actors``: the roles, as generators that yield wherever another process may come in between
- ``scenario``: triggers and functions, what clients do, and what ought to come of it
- ``template``: a database with a scenario's triggers in it, and its journal of every change of a state
- ``checks``: what must hold afterwards
- ``mutants``: the engine with one line wrong, to show that the checks see it
- ``run``: a seed, many seeds, a report
"""
