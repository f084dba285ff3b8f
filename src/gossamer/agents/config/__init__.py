"""Settings: what an agent and a fleet are told, each declared once."""
