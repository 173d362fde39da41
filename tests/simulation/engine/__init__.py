"""The whole engine in one thread, under a virtual clock and faults that a seed draws.

The engine's own code runs over SQLite in memory: routers, flow control, dispatchers, reapers, workers' claims and
completions. Its surroundings are simulated: the broker, the processes that die, the functions.

- ``world``: the scheduler, the database whose transactions may fail, the record of what each process did
- ``broker``: messages that are dropped, doubled, reordered, forgotten
- ``faults``: the faults that a seed draws, and the actor that causes them
- ``roles``, ``worker``: the roles, as generators that yield wherever another process may come in between
- ``scenario``: triggers and functions, the requests of clients, and the expected results
- ``database_template``: a database with a scenario's triggers, and its journal of every state change
- ``checks``: what must hold afterwards
- ``mutants``: the engine with one wrong line, to show that the checks find it
- ``run``: a seed, many seeds, a report
"""
