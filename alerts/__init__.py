"""From a finding to a person: incidents, routing, the words of a page, the outbox and its channels."""
