"""How an execution reaches a worker: who sends it, and when.

=================  ===================================================================================================
way                taken when
=================  ===================================================================================================
router             it has just started the execution: right after its commit, while the window has room and nothing
                   that is due waits in the backlog (:mod:`functory.engine.executions.direct_dispatch`)
client             the same for a program that stays (:mod:`.client_sender`): a thread of its own sends
dispatcher         the execution waits in the backlog: it was delayed, has a priority, a rate or a slot to wait for, the
                   window was full, or its sending failed. It is also sent again when no worker has claimed it for
                   long (:mod:`.dispatcher`)
standby dispatcher what is due was not sent for a second: no dispatcher works (:mod:`.dispatcher`)
poller             nothing has come for a while: a worker with a free slot claims what is due from the database, with
                   a broker or without one (:mod:`functory.workers.execution.poller`)
child call         a parent that waits runs its child in its own worker: it is claimed as it is written
                   (:mod:`functory.workers.execution.child_calls`)
=================  ===================================================================================================

The first four send messages with only ids, each with one :class:`.sending.Sending` for a thread. A message may come
twice, late or never: only the claim in the database starts an attempt.
"""
