"""Takes the child's rights away: namespaces, user ids, Landlock, seccomp, control groups."""
