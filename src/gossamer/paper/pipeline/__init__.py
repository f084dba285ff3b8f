"""How figures become a report: pieces of work, their results on disk, verdicts, style, the page."""
