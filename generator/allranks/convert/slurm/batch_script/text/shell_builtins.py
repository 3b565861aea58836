"""What bash does itself, so that no image needs a program for it."""

from __future__ import annotations

# As `compgen -b` lists them, and the words that stand before a command.
OF_BASH = frozenset(
    {
        *(".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command"),
        *("compgen", "complete", "compopt", "continue", "declare", "dirs", "disown", "echo"),
        *("enable", "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash"),
        *("help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd"),
        *("printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift"),
        *("shopt", "source", "suspend", "test", "times", "trap", "true", "type", "typeset"),
        *("ulimit", "umask", "unalias", "unset", "wait"),
        *("[[", "coproc", "select", "time"),
    }
)
