"""The control plane: tenants, operators, modules, flags, keys, usage."""
