"""What agents average, and how answers are read from the averages."""
