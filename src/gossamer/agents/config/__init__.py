"""The settings of agents and fleets, each declared once."""
