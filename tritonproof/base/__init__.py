"""What every folder needs and what needs none of them: paths, errors, files, safe texts, command lines."""
