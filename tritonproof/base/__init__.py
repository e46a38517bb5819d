"""What every folder uses and what itself uses none: paths, errors, files, safe texts, command lines."""
