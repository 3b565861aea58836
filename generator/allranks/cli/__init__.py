"""The command line: one module per concern, each loaded only when its command is called."""
