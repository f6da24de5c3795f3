"""A world in a bottle: real workers on virtual time, a store that fails, receivers with logs of their own, and a seed.

    python -m tests.simulation.world --seed 4711         # the very same world again, and what was wrong with it

One seed decides everything: how many workers and jobs there are, what the jobs do, which faults exist this time and how
often they strike. A world lives through two phases. While faults strike, only safety counts: nothing twice, nothing
without a record. Then the faults stop, somebody looks into every call that is uncertain, and everything has to come
to an end within a bounded time: a system that does nothing breaks no rule, and is caught here.

    mix         what this seed is made of
    outside     receivers, their logs, and the lines that lead to them
    program     what the jobs do
    witness     everything that happened, in one order
    people      who submits, cancels, signals, approves, resumes, says a word
    town        the worker processes and what strikes them
    judge       the rules
    promises    more of them: signals, children, approvals, checkpoints, recoveries
    run         all of it together
"""
