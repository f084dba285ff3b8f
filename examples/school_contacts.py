"""A network of contacts: phones in a school learn the average noise level of the building.

    python examples/school_contacts.py

There are six classes of twelve pupils. A round is a minute. Lessons take 45 minutes, in which a phone reaches only the
phones next to it; breaks take 15 minutes, in which any two pupils may meet, mostly of the same class. The network is
never connected at any one moment, but it is over a morning. The contacts have the usual format of contact traces
(time, a, b, duration).
"""

from itertools import pairwise

import numpy as np

import gossamer as gs

CLASSES, PUPILS, LESSONS = 6, 12, 5
LESSON, BREAK = 45, 15


def contacts(seed: int = 0) -> list[tuple[int, str, str, int]]:
    """Return the contacts of a school morning: start (minute), two pupils, duration (minutes)."""
    rng = np.random.default_rng(seed)
    names = [[f"class {c + 1}, pupil {p + 1}" for p in range(PUPILS)] for c in range(CLASSES)]
    everybody = [name for some in names for name in some]
    table = []
    for lesson in range(LESSONS):
        start = lesson * (LESSON + BREAK)
        for some in names:
            seats = rng.permutation(some)  # in a row, new in every lesson
            table += [(start, str(a), str(b), LESSON) for a, b in pairwise(seats)]
        for minute in range(start + LESSON, start + LESSON + BREAK):
            for name in everybody:
                if rng.random() < 0.3:
                    own = next(some for some in names if name in some)
                    other = str(rng.choice(own if rng.random() < 0.7 else everybody))
                    if other != name:
                        table.append((minute, name, other, int(rng.integers(1, 4))))
    return table


morning = contacts()
school = gs.ChangingNetwork.from_contacts(morning, every=1, repeat=True, name="school")
print(f"{len(morning)} contacts of {school.agents} pupils in {LESSONS} hours")

# Every phone measures the noise where it is: classes differ, and each minute's sample is noisy.
levels = 60 + 10 * np.random.default_rng(1).random(school.agents)
streams = gs.Gaussian(levels, std=4.0)

# The network is not known in advance, so use the local form. DSG runs with the weights of each minute.
hours = [60, 180, 300, 600, 1500]
comparison = gs.compare([gs.AnytimeSDA("local-heavy-ball"), "dsg"], school, streams, hours, trials=50)
print("\ntotal error, as a multiple of what a center with all samples would reach")
print(comparison.to_frame().pivot(index="method", columns="rounds", values="over_limit").round(2))
print(f"\ntypical error of a phone after {hours[-1]} minutes: {np.sqrt(comparison.column('mse')[4]):.2f} dB")
assert comparison.column("over_limit")[4] < comparison.column("over_limit")[-1]
