"""The objects of the watched namespaces, as the API server last reported them."""
