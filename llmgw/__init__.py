"""llmgw serves large language models on an organization's own machines behind one endpoint."""

__version__ = "0.1.0"
