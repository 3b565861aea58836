"""The adapters of Azure's SDKs: the only modules that import them.

They cost half a second to import, so each is imported when it is needed.
"""
