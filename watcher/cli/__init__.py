"""The commands, one file each: the only `print` and `sys.exit` of the program."""
