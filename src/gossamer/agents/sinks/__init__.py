"""Sinks: where an agent publishes its answers."""
