package main

import (
	"fmt"
	"os"
	"testing"
)

// TestMain lets the test binary stand for three programs, told apart by the
// first argument, so that the tests run the real thing, race detector included.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guardArg:
			guardMain(os.Stdin)
			return
		case "rig":
			os.Exit(rigMain(os.Args[2:], os.Stdout, os.Stderr))
		case "client":
			if err := clientMain(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "client:", err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}
