// Command reaches calls what TestVulnerable calls vulnerable in an expression that only Go 1.26
// has, new(VALUE): govulncheck 1.1.4 does not look into it.
package main

import "github.com/spf13/cobra"

func main() {
	_ = new(run())
}

func run() error {
	_, err := (&cobra.Command{}).ExecuteC()
	return err
}
