"""The steps of S-13, one file each, in their order."""
