// Command demo shows the plugin at work: the example pods come and go on a machine, and after each the machine is drawn with its owners.
//
// Nothing of it is a container. What is real is the plugin as it is deployed, and the NRI code of the runtimes, which talk to each other over
// a socket; the runtime behind it (package nriruntime) keeps its containers' cgroups in files of its own. It needs no root and no cluster.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	sysfs := flag.String("sysfs", "", "`DIR` of the machine to play on; default: this one, or a described one if it has fewer than 8 CPUs")
	examples := flag.String("examples", "../deploy/examples", "`DIR` with the pods")
	machines := flag.String("machines", "conformance/testdata/sysfs", "`DIR` with described machines")
	color := flag.Bool("color", isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "", "colours in the pictures")
	flag.Parse()

	err := play(stageOptions{sysfs: *sysfs, examples: *examples, machines: *machines, color: *color, out: os.Stdout})
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// play sets the stage, plays, and clears it away again.
func play(o stageOptions) error {
	s, err := newStage(o)
	if err != nil {
		return err
	}
	return errors.Join(s.play(), s.close())
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
