"""The SSH site on real nodes, reached by nothing but OpenSSH."""
