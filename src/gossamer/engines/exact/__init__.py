"""The expected error itself, with no sampling."""

from gossamer.engines.exact.engine import Exact as Exact
from gossamer.engines.exact.engine import analysable as analysable
from gossamer.engines.exact.engine import every_round as every_round
from gossamer.engines.exact.engine import exact as exact
from gossamer.engines.exact.engine import impulse_response as impulse_response
from gossamer.engines.exact.engine import propagate as propagate
from gossamer.engines.exact.engine import weights as weights
