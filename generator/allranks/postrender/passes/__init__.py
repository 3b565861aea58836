"""The passes: each makes one kind of change, through `Edit` only.

Their order is fixed in `allranks.postrender.pipeline`. Each reaches its own fixed point at once,
so that a second run over the output changes nothing.
"""
