package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestHangupEndsTheSleep: SIGHUP means that the next tick comes now.
func TestHangupEndsTheSleep(t *testing.T) {
	wake := make(chan os.Signal, 1)
	wake <- syscall.SIGHUP
	if err := (wallClock{interrupt: wake}).Sleep(t.Context(), time.Hour*24*365); err != nil {
		t.Error(err)
	}
}
