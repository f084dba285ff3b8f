"""Maximum likelihood and other convex losses of a linear predictor, learned over a network."""
