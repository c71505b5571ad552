"""Real brokers, publishers and subscribers on this machine, and what became of every publication."""
