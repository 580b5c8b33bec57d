// Command build makes the published buildkite-agent and prints where it is.
package main

import (
	"context"
	"fmt"
	"os"

	"muster/testdata/agent"
)

func main() {
	binary, err := agent.Build(context.Background(), "../../bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(binary)
}
