"""What the watchdog may do where its owner asked for it: one kind a file, each of them one command."""
