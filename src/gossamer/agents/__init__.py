"""Agents: the method deployed on a real network, one process per agent."""
