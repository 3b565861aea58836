"""The operator's client of the API server.

bounds      limits on the objects that are read
client      one request; its answer as JSON, or as an `ApiError` of `allranks.errors`
informer    a list kept up to date by a watch
resources   the kinds of objects and their API paths
"""
