"""Ways to reach a person, one file each: `send(notification, minimal) -> Sent | Retry | Rejected`."""
