"""From figures to a report: pieces of work, their rows, verdicts, style, and the page."""
