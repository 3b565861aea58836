"""An Azure that only pretends: what the SDKs of Azure are spoken to here, over real HTTP."""
