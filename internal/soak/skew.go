//go:build axskew

package main

// canSkew says that this build can run a process with a wrong clock.
const canSkew = true
