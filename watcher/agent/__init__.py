"""The node agent: reads what only the node can know, answers from memory."""
