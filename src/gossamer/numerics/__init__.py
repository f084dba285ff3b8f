"""What compiled code is built on: random numbers that are pure functions, vectors that round alike, threads."""
