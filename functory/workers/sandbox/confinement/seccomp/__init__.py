"""The system-call filter: policy, compilation to BPF, installation."""
