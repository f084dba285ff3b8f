"""Exact expected errors, without sampling."""

from gossamer.engines.exact.certificate import Certificate as Certificate
from gossamer.engines.exact.certificate import certificate as certificate
from gossamer.engines.exact.expected_error import analyzable as analyzable
from gossamer.engines.exact.expected_error import evaluate as evaluate
from gossamer.engines.exact.expected_error import exact as exact
from gossamer.engines.exact.expected_error import weights as weights
from gossamer.engines.exact.masking import mask_cost as mask_cost
from gossamer.engines.exact.measure import Measure as Measure
from gossamer.engines.exact.measure import integrate as integrate
from gossamer.engines.exact.propagation import AverageSweeps as AverageSweeps
from gossamer.engines.exact.propagation import Pass as Pass
from gossamer.engines.exact.propagation import Runs as Runs
from gossamer.engines.exact.propagation import Sweep as Sweep
from gossamer.engines.exact.propagation import WindowedPass as WindowedPass
from gossamer.engines.exact.propagation import impulse_response as impulse_response
from gossamer.engines.exact.propagation import one_pass as one_pass
from gossamer.engines.exact.propagation import propagate as propagate
from gossamer.engines.exact.propagation import summing as summing
from gossamer.engines.exact.propagation import trajectory as trajectory
from gossamer.engines.exact.result import Exact as Exact
from gossamer.engines.exact.sampling import Sampler as Sampler
from gossamer.engines.exact.sampling import measures as measures
