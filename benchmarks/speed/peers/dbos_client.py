"""The client of DBOS."""

from __future__ import annotations

from benchmarks.speed.line_process import answer_lines
from benchmarks.speed.peers.dbos_app import Client

if __name__ == "__main__":
    answer_lines({"send": Client().send})
