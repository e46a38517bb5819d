"""What is in the folder of builds, and is it unchanged? Converts, configures and reuses builds."""
