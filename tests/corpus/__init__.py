"""Public models and planted faults that the suite runs over, with the verdict that each deserves."""
