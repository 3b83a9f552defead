"""."""
ARCHITECTURES = ("x86_64", "aarch64")
