"""What went wrong in an ancestor of this project when it was run, sentence by sentence, and goes right here.

Functory took its idea from BabyAGI 0.1.4 ("functionz"). A study of that program listed its defects with a
reproducer for each; the numbers in the names of these tests are the ones of that list. Everything here is
used as a user would: an embedded engine, its Python API, functions run in child processes.
"""
