"""Three ways to run a method: exact, simulated, and simulated with faults. All of them interpret the same table."""
