"""Analysis of triggers for people: explain, backtest, cycles, audit. Nothing is written."""
