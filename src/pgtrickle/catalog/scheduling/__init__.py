"""Our tables about the scheduler: leader, holds, groups, fuses."""
