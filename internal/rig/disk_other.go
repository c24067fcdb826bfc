//go:build unix && !linux

package main

import "errors"

var errNoDisk = errors.New("a disk of a node's own needs Linux")

func mountDisk(string) error { return errNoDisk }
func fillDisk(string) error  { return errNoDisk }
func freeDisk(string) error  { return errNoDisk }
func unmountBelow(string)    {}
