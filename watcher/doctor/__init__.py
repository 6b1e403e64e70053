"""Is this run watchable? One check a file: it looks at what was gathered and answers lines; nothing here acts."""
