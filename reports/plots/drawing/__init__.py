"""Charts drawn with matplotlib. `chart` is the way in; the others are imported by nothing outside of this folder."""
