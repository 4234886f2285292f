"""How it is told: text, Markdown, CSV, JSON and pull-request summaries of runs. Pure."""
