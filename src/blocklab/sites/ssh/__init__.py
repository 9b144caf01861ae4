"""Real hosts over OpenSSH: what a hosts file names, and nothing else of them."""
