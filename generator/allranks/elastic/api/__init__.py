"""The objects that a person or a master writes: ElasticJob and ScalePlan."""
