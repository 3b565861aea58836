"""What values have to be for a chart, whatever the object said that they were made of."""
