"""The node's half: supervisor, engines, weights, the link to the control plane."""
