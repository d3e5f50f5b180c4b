"""Commands: one module each, named like the command.

add(subparsers)        its parser; only argparse and `config` are imported at the top, so that --help is fast
run(args) -> int       does the work and gives the exit status; imports what it needs

To add one: a module here and its name in `cli.COMMANDS`. Results go to stdout, everything else to stderr; an error
that the user should read is a ValueError or ConfigError, raised with one line that says what to do.
"""
