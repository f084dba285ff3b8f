"""What can go wrong in a network: one set of objects for the simulation and for real transports."""

from gossamer.faults.model import Bursts as Bursts
from gossamer.faults.model import Crash as Crash
from gossamer.faults.model import Delay as Delay
from gossamer.faults.model import Fault as Fault
from gossamer.faults.model import Faults as Faults
from gossamer.faults.model import Join as Join
from gossamer.faults.model import Links as Links
from gossamer.faults.model import Loss as Loss
from gossamer.faults.model import Partition as Partition
from gossamer.faults.model import Restart as Restart
