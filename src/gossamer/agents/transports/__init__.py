"""How agents reach each other: in process, over Eclipse Zenoh, over MPI."""
