"""What pages show and forms send. Decides nothing."""
