"""Samples from arrays, for the tests that hold inputs in their hands."""

import numpy as np

from fixtures.spec import Arrays, Samples


def samples_of(rows: Arrays) -> Samples:
    """The rows of some arrays, [rows, ...] each, as samples without labels."""
    count = len(next(iter(rows.values())))

    def load(indices: object) -> Arrays:
        return {name: values[np.asarray(indices)] for name, values in rows.items()}

    return Samples([f"row-{row}" for row in range(count)], load)
