package browser_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Chromium is a running browser.
type Chromium struct {
	command *exec.Cmd
	profile string
	toIt    *os.File
	done    chan struct{} // closed when it says nothing any more

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	onEvent map[string]func(method string, params json.RawMessage) // by session
}

// message is what the browser sends: an answer to a command, or an event.
type message struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	answer
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// stopTime is how long the browser may take to end by itself.
const stopTime = 5 * time.Second

// Start starts the browser that $CHROMIUM names, or else the one on the PATH, with a profile of its own and no screen.
func Start() (*Chromium, error) {
	path := os.Getenv("CHROMIUM")
	if path == "" {
		path = "chromium"
	}
	if _, err := exec.LookPath(path); err != nil {
		return nil, fmt.Errorf("there is no browser (apt-get install chromium fonts-dejavu-core, or say where it is with CHROMIUM=...): %w", err)
	}
	profile, err := os.MkdirTemp("", "nri-cpuset-browser-")
	if err != nil {
		return nil, err
	}
	c := &Chromium{
		profile: profile, done: make(chan struct{}), waiting: map[int]chan answer{},
		onEvent: map[string]func(string, json.RawMessage){},
	}
	if err := c.start(path); err != nil {
		_ = os.RemoveAll(profile)
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return c, nil
}

func (c *Chromium) start(path string) error {
	itReads, toIt, err := os.Pipe()
	if err != nil {
		return err
	}
	defer itReads.Close()
	fromIt, itWrites, err := os.Pipe()
	if err != nil {
		_ = toIt.Close()
		return err
	}
	defer itWrites.Close()
	c.toIt = toIt
	c.command = exec.Command(path, "--headless", "--remote-debugging-pipe", "--user-data-dir="+c.profile,
		"--no-sandbox", // it runs as root in CI, and shows our own pages only
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync")
	c.command.ExtraFiles = []*os.File{itReads, itWrites} // as descriptors 3 and 4
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.command.Start(); err != nil {
		return errors.Join(err, toIt.Close(), fromIt.Close())
	}
	go c.listen(fromIt)
	return nil
}

// Close ends the browser.
func (c *Chromium) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	_ = c.call(ctx, "", "Browser.close", nil, nil) // it may be gone before it has answered
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL) // its own process group: what is left of its helpers
	_ = c.command.Wait()
	return errors.Join(c.toIt.Close(), os.RemoveAll(c.profile))
}

// listen hands on what the browser says. Messages end with a zero byte.
func (c *Chromium) listen(fromIt *os.File) {
	defer close(c.done)
	defer fromIt.Close()
	reader := bufio.NewReaderSize(fromIt, 1<<20)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue
		}
		c.mu.Lock()
		waiting, onEvent := c.waiting[m.ID], c.onEvent[m.SessionID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- m.answer
		case m.Method != "" && onEvent != nil:
			onEvent(m.Method, m.Params)
		}
	}
}

// call sends a command and waits for its result.
func (c *Chromium) call(ctx context.Context, session, method string, params, result any) error {
	c.mu.Lock()
	c.last++
	id := c.last
	answered := make(chan answer, 1)
	c.waiting[id] = answered
	c.mu.Unlock()
	text, err := json.Marshal(struct {
		ID        int    `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
	}{id, session, method, params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if _, err := c.toIt.Write(append(text, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a := <-answered:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-c.done:
		return fmt.Errorf("%s: the browser has ended: %w", method, io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
