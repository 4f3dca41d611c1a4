"""Progress: what a run shows on the terminal and in TensorBoard while it goes on."""
