// Command muster-sim simulates fleets of muster.
package main

import (
	"muster/cmd/invocation"
	"muster/cmd/laboratory"
)

func main() { invocation.Main(laboratory.Commands) }
