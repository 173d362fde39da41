"""Where function code runs: one forked child for each execution, never the worker's own process.

``runner`` is the door (``Runner.run``, ``Runner.inspect``); ``job`` holds what goes in and comes out;
``host`` is what the worker offers to running code; everything that the child says travels as the closed
frames of ``protocol``. The side of the worker (``runner``, ``launcher``, ``supervisor``, ``requests``,
``logbook``, ``spanbook``) trusts nothing of what the side of the child (``zygote``, ``guest`` and what
they load) sends.
"""
