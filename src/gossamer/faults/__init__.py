"""Faults of a network: one set of objects for the simulation and for real transports.

    Loss(0.3)                     each message is lost with this probability, independently
    Loss(0.3, 200, 1200)          the same, in rounds 200 to 1199
    Bursts(10, 0.17)              links fall silent for 10 rounds on average, 17% of the time
    Delay(2, 0.1)                 one message in ten arrives two rounds late
    Crash(17, 500)                agent 17 stops at the start of round 500
    Restart(17, 800)              and comes back, with its observations, at the start of round 800
    Join(5, 100)                  agent 5 starts only in round 100
    Partition(range(50), 200, 1200)   agents 0-49 and the others do not hear each other in rounds 200 to 1199
    Quiet(0.1)                    agents with less news than a tenth of a standard error are silent
    Faults(Loss(0.3), Crash(17, 500))   several together; a list of faults is accepted as well

Every decision is a pure function of (seed, trial, round, sender, receiver), so a fleet and a simulation with
the same seed lose exactly the same messages. A transport asks `Faults.bind(seed)`:

    bound = faults.bind(seed=1)
    bound.heard(round=7, sender=3, receiver=4)     does the message arrive in its round?
    bound.lost(...), bound.delay(...)              does it arrive at all, and how many rounds late?
    faults.alive(agent=17, round=600)

and the simulation draws `heard` for all links and many trials at once; both give the same answers.
"""

from gossamer.faults.bound import BoundFaults as BoundFaults
from gossamer.faults.combined import Event as Event
from gossamer.faults.combined import Faults as Faults
from gossamer.faults.combined import FaultsLike as FaultsLike
from gossamer.faults.fault import Fault as Fault
from gossamer.faults.kinds import Bursts as Bursts
from gossamer.faults.kinds import Crash as Crash
from gossamer.faults.kinds import Delay as Delay
from gossamer.faults.kinds import Join as Join
from gossamer.faults.kinds import Loss as Loss
from gossamer.faults.kinds import Partition as Partition
from gossamer.faults.kinds import Restart as Restart
from gossamer.faults.kinds import from_json as from_json
from gossamer.faults.kinds import in_order as in_order
from gossamer.faults.kinds import parse as parse
from gossamer.faults.quiet import Quiet as Quiet

__all__ = [
    "BoundFaults",
    "Bursts",
    "Crash",
    "Delay",
    "Event",
    "Faults",
    "Join",
    "Loss",
    "Partition",
    "Quiet",
    "Restart",
    "parse",
]
