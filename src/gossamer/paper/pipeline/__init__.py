"""How figures become a report: pieces of work, what is on disk of them, verdicts, looks, the page."""
