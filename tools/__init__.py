"""What build.py does, one file a command. Standard library only unless a file says that it runs in the environment."""
