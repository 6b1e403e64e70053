"""The whole system on a simulated fleet, faster than real time: real agents, follower, daemon, store and channel."""
