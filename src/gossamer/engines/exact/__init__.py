"""The expected error itself, with no sampling."""

from gossamer.engines.exact.engine import analyzable as analyzable
from gossamer.engines.exact.engine import every_round as every_round
from gossamer.engines.exact.engine import exact as exact
from gossamer.engines.exact.engine import weights as weights
from gossamer.engines.exact.propagation import impulse_response as impulse_response
from gossamer.engines.exact.propagation import propagate as propagate
from gossamer.engines.exact.result import Exact as Exact
