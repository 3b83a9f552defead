"""The leader: what is wanted against what runs, and the links to the agents."""
