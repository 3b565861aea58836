"""The rules between values, one module a subject; `rule` says what a rule is."""
