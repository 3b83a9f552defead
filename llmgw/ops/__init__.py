"""What composes the roles and sets machines up."""
