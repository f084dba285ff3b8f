"""What survives a crash: one SQLite file per agent."""
