"""Linear regression without a data center: ten clinics, one model, no patient record leaves its clinic.

    python examples/sensor_calibration.py

The 442 patients of scikit-learn's diabetes data are spread over ten clinics. Each wants the linear model that all
the data together would give. They talk only to their neighbors on a ring, and exchange only two averages:
of A_i'A_i and of A_i'y_i, where the rows of A_i are their patients. Requires: pip install 'gossamer[data]'
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import gossamer as gs
from gossamer.applications import Alone, KarMoura, LinearEstimation

# -- 1. Recorded data ---------------------------------------------------------------------------------------------
# from_data distributes the rows over the agents of a network. Here each clinic gets a contiguous block of patients;
# split="by:<column>" would make one agent per value of a column.

frame = load_diabetes(as_frame=True).frame
ring = gs.Network.cycle(10)
clinics = LinearEstimation.from_data(frame, "target", agents=ring, split="contiguous")

# An agent may only invert its average of A_i'A_i once it is close enough to the true one: Corollary 1 requires
# ||Abar^-1|| ||Ahat_i - Abar|| <= 1/2. The library computes how many rounds that takes, and refuses fewer.

needed = clinics.gram_rounds_needed("chebyshev")
print(f"{needed} rounds of Chebyshev averaging before anybody may invert")

model = LinearRegression().fit(frame.drop(columns="target"), frame["target"])
pooled = np.append(model.coef_, model.intercept_)

print(
    "\nlargest difference between any clinic's coefficients and scikit-learn's, relative to the largest coefficient"
)
for rounds in (needed, 40, 60, 80):
    held = clinics.estimate("chebyshev", rounds)  # (10 clinics, 11 coefficients)
    apart = np.abs(held - pooled).max() / np.abs(pooled).max()
    print(f"  after {rounds:3d} rounds  {apart:.1e}")
assert apart < 1e-9, "every clinic agrees with scikit-learn to nine digits"

# -- 2. A stream of measurements ----------------------------------------------------------------------------------
# Sensors keep measuring: Y_i = A_i beta + noise, with two rows and five unknowns each, so no sensor can determine
# beta alone. With known noise, precision weighting makes the limit generalized least squares. The expected error
# of a method is computed exactly, without sampling.

sensors = LinearEstimation.random(gs.Network.grid(5, 5), dimension=5, measurements=2, weighting="precision")
rounds = [50, 200, 800]
limit = sensors.centralized_error(rounds)
print("\nexpected squared error of 25 sensors, as a multiple of what a data center would reach")
print("  rounds           " + "".join(f"{t:9d}" for t in rounds))
for method in (gs.AnytimeSDA(), gs.SDA(), gs.DSG()):
    print(
        f"  {method.name:17}"
        + "".join(f"{e:9.2f}" for e in sensors.exact(method, rounds).total_error / limit)
    )
for name, rival in (("kar-moura", KarMoura()), ("each alone", Alone())):
    print(
        f"  {name:17}"
        + "".join(f"{e:9.2f}" for e in sensors.simulate(rival, rounds, trials=50).total_error / limit)
    )

# -- 3. Online ----------------------------------------------------------------------------------------------------
# Measurements are processed as they arrive; an agent without a new one passes None and keeps talking. Here, sensor i
# measures every (1 + i % 3) rounds.

rng = np.random.default_rng(1)
noise = [np.linalg.cholesky(s) for s in sensors.covariances]
online = sensors.online()
print("\nmeasurements as they come: largest error of any sensor in any coefficient")
for t in range(1, 2001):
    online.observe(
        [
            a @ sensors.parameter + noise[i] @ rng.normal(size=2) if t % (1 + i % 3) == 0 else None
            for i, a in enumerate(sensors.matrices)
        ]
    )
    if t in (50, 200, 800, 2000):
        print(f"  round {t:4d}  {np.abs(online.estimate() - sensors.parameter).max():.4f}")
