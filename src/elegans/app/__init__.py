"""What a person looks at: live progress, the state of this machine, and how fast it is."""
