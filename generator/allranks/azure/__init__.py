"""A cluster on Azure, from nothing and away again: what `azure.yaml` asks for, and what is there.

Azure Resource Manager is the only state: what is there is read from it, a pure diff says what is to
be done, and each step is one request that may be sent twice. So nothing is kept on this machine,
and a command that was killed is begun anew. Azure's SDKs are imported in `sdk` alone, behind
`ports`.
"""
