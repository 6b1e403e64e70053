"""Log formats: one file each. A format is pure: it is fed lines and answers events.

    class Megatron:
        def feed(self, line: str, number: int) -> list[LogEvent]: ...
        def flush(self) -> list[LogEvent]: ...

    FORMAT = Format("megatron", Megatron)

`line` comes without its end, decoded, without colour codes and known prefixes; a line redrawn with `\\r` arrives as
its parts under the same number. Files that start with `_` are helpers.
"""
