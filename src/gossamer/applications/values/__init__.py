"""Values from experience: policy evaluation with features, from trajectories."""
