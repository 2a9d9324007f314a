package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
)

const (
	answerTimeout = 5 * time.Second
	maxAnswer     = 64 << 20 // bytes of a state; 10,000 containers are about 10 MiB
)

// The first NRI in a runtime that refuses a container whose plugin does not answer in time, and the first that can be called without danger.
const (
	failsClosed = "v0.12.4"
	callable    = "v0.12.1"
)

// running asks a plugin that runs on this node how it is.
func (e *examination) running(ctx context.Context) {
	const check = "nri-cpuset"
	if e.Address == "" {
		return
	}
	status, text, err := e.get(ctx, "/readyz")
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.warn(check, "install it: docs/quickstart.md; or give its --listen as --address", "nobody answers at %s: it does not run, or listens elsewhere", e.Address)
		return
	case err != nil:
		e.problem(check, "look at its log", "it does not answer at %s: %v", e.Address, err)
		return
	case status != http.StatusOK:
		e.problem(check, "docs/troubleshooting.md; look at its log", "it is not ready: %s", strings.TrimSpace(text))
	default:
		e.ok(check, "it is ready")
	}
	e.runningState(ctx)
}

// runningState looks at what a plugin says of itself: what it is connected to, and what it complains of.
func (e *examination) runningState(ctx context.Context) {
	_, text, err := e.get(ctx, "/api/v1/state")
	var state struct {
		ConfigError string `json:"configError"`
		StateError  string `json:"stateError"`
		Runtime     *struct {
			Name, Version, NRI string
		} `json:"runtime"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &state)
	}
	if err != nil {
		e.warn("nri-cpuset's state", "look at its log", "/api/v1/state: %v", err)
		return
	}
	if state.ConfigError != "" {
		e.problem("nri-cpuset's configuration", "mend it; the one before is in force", "%s", state.ConfigError)
	}
	if state.StateError != "" {
		e.warn("nri-cpuset's state file", "make room, or make the directory writable", "%s", state.StateError)
	}
	if state.Runtime == nil {
		return
	}
	const check = "runtime"
	seen := fmt.Sprintf("%s %s with nri %s", state.Runtime.Name, state.Runtime.Version, state.Runtime.NRI)
	nri := state.Runtime.NRI
	switch {
	case !semver.IsValid(nri) || semver.Compare(nri, callable) < 0:
		e.warn(check, "a runtime with nri 0.12.4 or later does not have this",
			"%s: its records follow only when something happens, and a container whose plugin answers late is created unpinned", seen)
	case semver.Compare(nri, failsClosed) < 0:
		e.warn(check, "a runtime with nri 0.12.4 or later refuses it instead", "%s: a container whose plugin answers late is created unpinned", seen)
	default:
		e.ok(check, "%s: a container whose plugin answers late is refused", seen)
	}
}

// get asks the plugin, and nobody that it might be sent on to.
func (e *examination) get(ctx context.Context, path string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address+path, nil)
	if err != nil {
		return 0, "", err
	}
	transport := &http.Transport{Proxy: nil}
	defer transport.CloseIdleConnections()
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, string(body), err
}
