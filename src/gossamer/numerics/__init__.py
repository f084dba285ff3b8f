"""What compiled code stands on: random numbers that are pure functions, vectors that round alike, threads."""
