"""Ways to run a method: exact (`exact.py`) and simulated (`simulate.py`). All read the same table."""
