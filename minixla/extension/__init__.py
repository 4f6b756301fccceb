"""Operations of users: declared, with kernels for platforms, derivatives and batching rules."""
