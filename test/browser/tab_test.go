package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Tab is one page that is looked at. Scripts of the page do not run in it; ours do.
type Tab struct {
	browser *Chromium
	target  string
	session string
	loaded  chan struct{}

	mu         sync.Mutex
	complaints []string
}

// View is how a page is looked at.
type View struct {
	Width, Height int // of the window, in CSS pixels
	Phone         bool
	Dark          bool
}

// pageTime is how long a page may take for anything.
const pageTime = 30 * time.Second

// Open opens a tab.
func (c *Chromium) Open(v View) (*Tab, error) {
	t := &Tab{browser: c, loaded: make(chan struct{}, 16)}
	ctx, cancel := context.WithTimeout(context.Background(), pageTime)
	defer cancel()
	var target struct {
		TargetID string `json:"targetId"`
	}
	if err := c.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	if err := c.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return nil, err
	}
	t.target, t.session = target.TargetID, attached.SessionID
	c.mu.Lock()
	c.onEvent[t.session] = t.event
	c.mu.Unlock()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	return t, errors.Join(
		t.call("Page.enable", nil, nil),
		t.call("Log.enable", nil, nil),
		t.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil),
		t.call("Emulation.setDeviceMetricsOverride", map[string]any{
			"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": v.Phone,
		}, nil),
		t.call("Emulation.setEmulatedMedia", map[string]any{
			"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
		}, nil),
	)
}

// Close closes the tab.
func (t *Tab) Close() error {
	return t.browser.call(context.Background(), "", "Target.closeTarget", map[string]any{"targetId": t.target}, nil)
}

func (t *Tab) event(method string, params json.RawMessage) {
	switch method {
	case "Page.loadEventFired":
		select {
		case t.loaded <- struct{}{}:
		default: // nobody has waited for the last ones
		}
	case "Log.entryAdded":
		t.mu.Lock()
		t.complaints = append(t.complaints, string(params))
		t.mu.Unlock()
	}
}

// Complaints returns what the browser has logged about the pages: violations of their policy, for one.
func (t *Tab) Complaints() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.complaints
}

// Go goes to an address and waits until the page is there.
func (t *Tab) Go(address string) error {
	var result struct {
		ErrorText string `json:"errorText"`
	}
	if err := t.call("Page.navigate", map[string]any{"url": address}, &result); err != nil {
		return err
	}
	if result.ErrorText != "" {
		return fmt.Errorf("going to %s: %s", address, result.ErrorText)
	}
	return t.WaitForLoad()
}

// WaitForLoad waits until a page has been loaded.
func (t *Tab) WaitForLoad() error {
	select {
	case <-t.loaded:
		return nil
	case <-time.After(pageTime):
		return errors.New("the page was not loaded in time")
	}
}

// Click clicks in the middle of the first element that a CSS selector finds, as a mouse does.
func (t *Tab) Click(selector string) error {
	var at struct{ X, Y float64 }
	find := fmt.Sprintf(`(() => {
		const e = document.querySelector(%q); e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2};
	})()`, selector)
	if err := t.Evaluate(find, &at); err != nil {
		return err
	}
	for _, what := range []string{"mousePressed", "mouseReleased"} {
		err := t.call("Input.dispatchMouseEvent", map[string]any{"type": what, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// Evaluate runs a JavaScript expression of ours on the page.
func (t *Tab) Evaluate(expression string, result any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := t.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r); err != nil {
		return err
	}
	if r.Exception != nil {
		return errors.New(r.Exception.Exception.Description)
	}
	return json.Unmarshal(r.Result.Value, result)
}

// Screenshot returns a PNG of the page, down to a height.
func (t *Tab) Screenshot(width, height int) ([]byte, error) {
	var shot struct {
		Data []byte `json:"data"`
	}
	err := t.call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
	}, &shot)
	return shot.Data, err
}

func (t *Tab) call(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), pageTime)
	defer cancel()
	return t.browser.call(ctx, t.session, method, params, result)
}
