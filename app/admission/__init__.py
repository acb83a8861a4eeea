"""Who may use the deployment, how much of it, and whose turn it is."""
