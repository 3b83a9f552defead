"""`llmgw up`: server, agent and a model on one machine, with nothing to prepare."""
