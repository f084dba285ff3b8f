"""Observations of the agents: independent noisy samples, one stream per agent.

Sample k of agent i in trial r is a pure function of (seed, r, i, k), see `numerics/random.py`: it does not depend on
threads, blocks or engines, and a deployed agent with a simulated sensor draws the same numbers.
"""

from gossamer.observations.masks import Masked as Masked
from gossamer.observations.masks import Masks as Masks
from gossamer.observations.masks import incidence as incidence
from gossamer.observations.moving import Drifting as Drifting
from gossamer.observations.moving import Moving as Moving
from gossamer.observations.noise import Bernoulli as Bernoulli
from gossamer.observations.noise import Empirical as Empirical
from gossamer.observations.noise import Gaussian as Gaussian
from gossamer.observations.noise import StudentT as StudentT
from gossamer.observations.noise import Uniform as Uniform
from gossamer.observations.stream import Observations as Observations
from gossamer.observations.stream import UniformDriven as UniformDriven
from gossamer.observations.stream import check_match as check_match
from gossamer.observations.stream import check_streams as check_streams
from gossamer.observations.stream import fourth_moment_note as fourth_moment_note
