"""The rules between values, one module per subject; see `ValuesRule`."""
