"""A network of who sits beside whom: phones in a school learn the average noise level of the building.

    python examples/school_contacts.py

Six classes of twelve pupils. A round is a minute: 45 minutes of a lesson, in which a phone reaches only those who sit
beside it, then 15 minutes of a break, in which any two pupils may meet, mostly of the same class. At no moment is the
network connected; over a morning it is. The contacts are written as contact traces usually are (time, a, b, duration).
"""

from itertools import pairwise

import numpy as np

import gossamer as gs

CLASSES, PUPILS, LESSONS = 6, 12, 5
LESSON, BREAK = 45, 15


def contacts(seed: int = 0) -> list[tuple[int, str, str, int]]:
    """A school morning: who was near whom, from which minute on, and for how many."""
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

# Nobody knows the network, so the local form is the method to choose. DSG runs with the weights of each minute.
hours = [60, 180, 300, 600, 1500]
found = gs.compare([gs.AnytimeSDA("local"), "dsg"], school, streams, hours, trials=50)
print("\ntotal error, as a multiple of what a center with all samples would reach")
print(found.to_frame().pivot(index="method", columns="rounds", values="over_limit").round(2))
print(f"\ntypical error of a phone after {hours[-1]} minutes: {np.sqrt(found.column('mse')[4]):.2f} dB")
assert found.column("over_limit")[4] < found.column("over_limit")[-1]
