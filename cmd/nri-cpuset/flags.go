package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// parseFlags parses a command's flags. stop says that the command ends here with that status: help was asked for, or a flag is wrong. No
// command takes arguments.
func parseFlags(flags *pflag.FlagSet, args []string, stdout, stderr io.Writer, help string) (status int, stop bool) {
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "Usage: nri-cpuset %s [flags]\n\n%s\nFlags:\n%s", flags.Name(), help, flags.FlagUsagesWrapped(100))
		return exitDone, true
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		fail(stderr, flags.Name(), fmt.Errorf("%w; see nri-cpuset %s --help", err, flags.Name()))
		return exitError, true
	}
	return exitDone, false
}

// fail writes an error as one line and returns the status of what could not run.
func fail(stderr io.Writer, command string, err error) int {
	fmt.Fprintf(stderr, "nri-cpuset %s: %s\n", command, strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitError
}

// isTerminal tells whether w is a terminal that wants colour (https://no-color.org).
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
