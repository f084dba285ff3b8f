"""Sources of observations."""
