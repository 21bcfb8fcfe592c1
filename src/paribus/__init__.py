"""Language-model architectures, all else equal."""
