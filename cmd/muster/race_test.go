//go:build race

package main

// raced says that the race detector slows everything down tenfold.
const raced = true
