package main

import (
	"fmt"
	"os"
	"strings"
)

// Beside go-tpc's own sources: by itself it takes a password as an argument only, and every user of a host can read
// those. Here they are Go's own copy, which the kernel does not show.
func init() {
	name := os.Getenv("BLOCKLAB_PASSWORD_FILE")
	if name == "" {
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "BLOCKLAB_PASSWORD_FILE:", err)
		os.Exit(1)
	}
	os.Args = append(os.Args, "--password="+strings.TrimSpace(string(text)))
}
