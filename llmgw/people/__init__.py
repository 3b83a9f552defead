"""Keys and the tree of organizations, teams and projects they belong to."""
