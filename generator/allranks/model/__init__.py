"""The domain's values: plain frozen data, no input or output."""
