"""Public models and planted faults that the suite is run over, with the verdict that each of them
deserves."""
