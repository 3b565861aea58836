"""The passes: each is one concern, stands alone, and writes only through `Edit`.

Their order is fixed in `allranks.postrender.pipeline`. Each reaches its own fixed point at once,
so that a second run over the output changes nothing.
"""
