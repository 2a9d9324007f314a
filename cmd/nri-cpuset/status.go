package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"nri-cpuset/plugin/web"
)

const statusHelp = `Show who owns which CPU on this node, and why: what the running plugin says at /api/v1/state.

The exit status is 0 where the plugin has answered, whatever it says, and 2 where it has not.

Examples:
  nri-cpuset status
  nri-cpuset status --address 127.0.0.1:9178 --output json | jq '.containers[] | select(.exclusive)'
`

func statusCommand(args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet("status", pflag.ContinueOnError)
	address := flags.String("address", "127.0.0.1:9178", "`ADDR` that the plugin serves, its --listen")
	output := flags.String("output", "text", "`FORMAT` to print: text or json")
	if status, stop := parseFlags(flags, args, stdout, stderr, statusHelp); stop {
		return status
	}
	if *output != "text" && *output != "json" {
		return fail(stderr, "status", fmt.Errorf("--output is %q: give text or json", *output))
	}
	if !isHostPort(*address) {
		return fail(stderr, "status", fmt.Errorf("--address is %q: give HOST:PORT, as in the plugin's --listen", *address))
	}
	text, err := fetchState(*address)
	if err != nil {
		return fail(stderr, "status", fmt.Errorf("the plugin does not answer at %s; is it running, with that --listen? %w", *address, err))
	}
	if *output == "json" {
		_, err = stdout.Write(text)
	} else {
		err = showState(stdout, text)
	}
	if err != nil {
		return fail(stderr, "status", fmt.Errorf("the state at %s: %w", *address, err))
	}
	return exitDone
}

func isHostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

func showState(stdout io.Writer, text []byte) error {
	var r web.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("this is no state of nri-cpuset's: %w", err)
	}
	return writeStatus(stdout, &r, isTerminal(stdout))
}

const (
	fetchTimeout = 10 * time.Second
	maxState     = 64 << 20 // bytes of an answer; 10,000 containers are about 10 MiB
)

// fetchState gets the state that a plugin serves. It asks that address and nobody else: no proxy, and nobody it might be sent on to.
func fetchState(address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/state", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxState+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxState {
		return nil, fmt.Errorf("it answers with more than %d MiB", maxState>>20)
	}
	return text, nil
}
