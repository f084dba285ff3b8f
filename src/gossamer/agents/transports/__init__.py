"""How agents reach each other: in process, over mutual TLS, over MPI."""
